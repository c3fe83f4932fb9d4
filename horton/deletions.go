package horton

// deletions bound how many keys have been deleted since entries were reclaimed, where a
// batch does not say what its operations have come to: no more than there were operations
// that delete, and no more than the keys that there were, and those that others may have
// inserted, are fewer now.
type deletions struct {
	deleted uint64 // until keys were last counted
	counted bool
	live    uint64 // keys then
	// Operations submitted since, which may have done so.
	inserts, deletes uint64
}

// submitted notes operations of a batch.
func (d *deletions) submitted(inserts, deletes int) {
	if !d.counted {
		d.deleted += uint64(deletes)
		return
	}
	d.inserts += uint64(inserts)
	d.deletes += uint64(deletes)
}

// count takes account of how many keys there are behind all of them.
func (d *deletions) count(live uint64) {
	if d.counted {
		d.deleted += min(d.deletes, d.live+d.inserts-live)
	}
	*d = deletions{deleted: d.deleted, counted: true, live: live}
}

// bound is the most that may have been deleted.
func (d *deletions) bound() uint64 { return d.deleted + d.deletes }
