package horton

import (
	"context"

	"github.com/weftgo/weft/internal/cpu"
)

// bucketsPerCheck is the number of buckets that are reclaimed between two checks of the context.
// Reclaiming them takes a few milliseconds.
const bucketsPerCheck = 1 << 14

func (e *cpuEngine[K, SK, V, SV]) reclaim(ctx context.Context) (done bool, err error) {
	if e.Leases.Held() {
		return false, nil
	}
	g := e.generation()
	t := tableOf[SK, SV](g)
	r := reclaimer[SK, SV]{cpuTable: &t}
	defer func() { g.Tally().Used += uint64(r.used) }()
	for b := range t.buckets {
		if b%bucketsPerCheck == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		r.reclaim(b)
	}
	g.deleted.Store(0)
	return true, nil
}

// reclaimAll reclaims the given buckets. It returns the change in the number of slots with live or
// dead keys.
func reclaimAll[K cpu.Key, V cpu.Val](t *cpuTable[K, V], buckets []uint32) (used int64) {
	r := reclaimer[K, V]{cpuTable: t}
	for _, b := range buckets {
		r.reclaim(b)
	}
	return r.used
}

// reclaimer shortens lookups after deletes (paper, section 5.4).
type reclaimer[K cpu.Key, V cpu.Val] struct {
	*cpuTable[K, V]
	remapped []*cpu.Slot[K, V] // keys of the current bucket in secondary buckets
	used     int64             // change in the number of slots with live or dead keys
}

// reclaim clears the unused entries of a bucket, and moves its keys back while slots are free. If
// all keys fit, the bucket becomes one of type A.
func (r *reclaimer[K, V]) reclaim(bucket uint32) {
	slots := r.bucket(bucket)
	if !isArray(last(slots)) {
		return
	}
	r.collect(bucket)
	_, free := countFree(slots)
	all := len(r.remapped) <= free+1 // the array's slot becomes free too
	if all {
		vacate(last(slots))
	}
	for _, from := range r.remapped {
		to := freeSlot(slots)
		if to == nil {
			break
		}
		if to.Key != cpu.Sentinel[K](cpu.Empty) {
			r.used-- // a dead slot is in use already
		}
		*to = *from
		vacate(from)
	}
	if free > 0 && !all {
		r.collect(bucket)
	}
}

// collect finds the keys of a bucket in secondary buckets, and clears unused entries.
func (r *reclaimer[K, V]) collect(bucket uint32) {
	s, entries := last(r.bucket(bucket)), entriesOf[K, V]()
	a := arrayOf(s)
	r.remapped = r.remapped[:0]
	for tag := range entries {
		i := a.entry(tag)
		if i == 0 {
			continue
		}
		h, before := home{bucket, tag}, len(r.remapped)
		slots := r.secondaryBucket(r.secondary(h, entries, i))
		for j := range slots {
			if r.isOf(h, &slots[j]) {
				r.remapped = append(r.remapped, &slots[j])
			}
		}
		if len(r.remapped) == before {
			a = a.withEntry(tag, 0)
		}
	}
	writeArray(s, a)
}
