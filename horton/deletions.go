package horton

// deletions bounds how many keys have been deleted since the last reclaim, for batches that do not
// report the outcomes of their operations. The bound is the number of deletes submitted. Counting
// keys lowers it to the drop in the number of keys, plus the keys that others may have inserted.
// The zero value is that of an empty table.
type deletions struct {
	deleted uint64 // until keys were last counted
	live    uint64 // keys at that time, or more
	// Operations submitted since then that may have inserted or deleted.
	inserts, deletes uint64
}

// addSubmitted records operations of a batch.
func (d *deletions) addSubmitted(inserts, deletes int) {
	d.inserts += uint64(inserts)
	d.deletes += uint64(deletes)
}

// setLive records the number of keys after all operations so far.
func (d *deletions) setLive(live uint64) {
	*d = deletions{deleted: d.deleted + min(d.deletes, d.live+d.inserts-live), live: live}
}

// setReclaimed records a reclaim after all operations so far.
func (d *deletions) setReclaimed() { *d = deletions{live: d.live + d.inserts} }

// bound returns the most keys that may have been deleted.
func (d *deletions) bound() uint64 { return d.deleted + d.deletes }
