package horton

// deletions bounds the number of keys deleted since the last reclaim, for batches that do not
// report outcomes. The bound is the number of deletes submitted. Counting the keys can lower it to
// the drop in the number of keys, plus the insertions that may have hidden deletes. The zero value
// is for an empty table.
type deletions struct {
	deleted uint64 // bound when keys were last counted
	live    uint64 // number of keys at that time, or more
	// Operations submitted since then that may insert a key, and those that may delete one.
	inserts, deletes uint64
}

func (d *deletions) addSubmitted(inserts, deletes int) {
	d.inserts += uint64(inserts)
	d.deletes += uint64(deletes)
}

// setLive records the number of keys after all operations submitted so far.
func (d *deletions) setLive(live uint64) {
	*d = deletions{deleted: d.deleted + min(d.deletes, d.live+d.inserts-live), live: live}
}

// setReclaimed records a reclaim after all operations submitted so far.
func (d *deletions) setReclaimed() { *d = deletions{live: d.live + d.inserts} }

// bound returns an upper bound on the number of keys deleted.
func (d *deletions) bound() uint64 { return d.deleted + d.deletes }
