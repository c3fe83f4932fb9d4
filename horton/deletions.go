package horton

// deletions bound how many keys have been deleted since entries were reclaimed, where a
// batch does not say what its operations have come to: no more than there were operations
// that delete, and no more than the keys that there were, and those that others may have
// inserted, are fewer now. The zero value is that of an empty table.
type deletions struct {
	deleted uint64 // until keys were last counted
	live    uint64 // keys then, or more
	// Operations submitted since, which may have done so.
	inserts, deletes uint64
}

// submitted notes operations of a batch.
func (d *deletions) submitted(inserts, deletes int) {
	d.inserts += uint64(inserts)
	d.deletes += uint64(deletes)
}

// count takes account of how many keys there are behind all of them.
func (d *deletions) count(live uint64) {
	*d = deletions{deleted: d.deleted + min(d.deletes, d.live+d.inserts-live), live: live}
}

// reclaimed takes account of entries that have been, behind all of them.
func (d *deletions) reclaimed() { *d = deletions{live: d.live + d.inserts} }

// bound is the most that may have been deleted.
func (d *deletions) bound() uint64 { return d.deleted + d.deletes }
