package slab

import (
	"context"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Tuning of lookups.
const (
	// group is how many operations are worked on while the memory of as many
	// more is on its way. A core tracks 10 to 16 misses at once, and a slab is
	// two. Lookups of 10^7 keys at utilisation .55 took 28 ns with groups of 8,
	// 31 with 16 or 32; misses the same.
	group = 8

	// grain is the number of lookups a core takes at a time, a few hundred
	// microseconds' work.
	grain = 1 << 13

	// getPiece is the number of lookups between two looks at the context.
	getPiece = 1 << 20
)

// keysIn runs body for parts of the keys of a batch, on all cores, until ctx
// ends. done is the length of the prefix that was run.
func (e *cpuEngine[K, SK, V, SV]) keysIn(ctx context.Context, b *batch.Batch, body func(lo, hi int)) error {
	for lo := 0; lo < b.N; lo += getPiece {
		if err := ctx.Err(); err != nil {
			return err
		}
		e.dev.Parallel(min(getPiece, b.N-lo), grain, func(from, to int) { body(lo+from, lo+to) })
	}
	return nil
}

func (e *cpuEngine[K, SK, V, SV]) get(ctx context.Context, b *batch.Batch) (int, error) {
	keys, vals, found := batch.View[K](b.Keys.Host), batch.View[V](b.Vals.Host), batch.View[bool](b.OK.Host)
	t := tableOf[SK, SV](e.gen)
	var hits atomic.Int64
	err := e.keysIn(ctx, b, func(lo, hi int) {
		var v []V
		var f []bool
		if vals != nil {
			v = vals[lo:hi]
		}
		if found != nil {
			f = found[lo:hi]
		}
		hits.Add(int64(getRange(&t, keys[lo:hi], v, f)))
	})
	return int(hits.Load()), err
}

func (e *cpuEngine[K, SK, V, SV]) present(ctx context.Context, _ *device.Stream, b *batch.Batch) (int, error) {
	return e.get(ctx, &batch.Batch{N: b.N, Keys: b.Keys})
}

// getOn: the memory of a CPU device is host memory.
func (e *cpuEngine[K, SK, V, SV]) getOn(s *device.Stream, b *batch.Batch) error {
	if err := s.Sync(context.Background()); err != nil { // it may be closed
		return err
	}
	_, err := e.get(context.Background(), b)
	return err
}

// flight is a group of keys whose next slabs are on their way.
type flight struct {
	n     int
	who   [group]int
	slabs [group]unsafe.Pointer
}

// stay keeps a key in the flight, now n long, if its bucket goes on behind the
// slab.
func (f *flight) stay(i int, next unsafe.Pointer) bool {
	if next == nil {
		return false
	}
	f.who[f.n], f.slabs[f.n] = i, next
	f.n++
	return true
}

// board fills a flight up with the base slabs of keys from number next on,
// sends for all of its slabs, and returns the next number.
func board[K, SK storedKey, SV storedVal](f *flight, t *cpuTable[SK, SV], keys []K, next int) int {
	for ; f.n < group && next < len(keys); next++ {
		f.who[f.n], f.slabs[f.n] = next, t.base(bucketOf(t.geometry, SK(keys[next])))
		f.n++
	}
	prefetchSlabs(f.slabs[:f.n])
	return next
}

// getRange looks up keys on one core: a slab of each key of one flight, while
// the slabs of the other flight are on their way.
func getRange[K, SK storedKey, V, SV storedVal](t *cpuTable[SK, SV], keys []K, vals []V, found []bool) (hits int) {
	var flights [2]flight
	next := board(&flights[0], t, keys, 0)
	next = board(&flights[1], t, keys, next)
	for turn := 0; flights[0].n+flights[1].n > 0; turn ^= 1 {
		f := &flights[turn]
		var at [group]int
		for j, i := range f.who[:f.n] {
			at[j] = match[SK, SV](f.slabs[j], stored(SK(keys[i])))
		}
		n := f.n
		f.n = 0
		for j, i := range f.who[:n] {
			slab := f.slabs[j]
			var s *slot[SK, SV]
			if at[j] < t.perSlab() {
				s = &t.slots(slab)[at[j]]
			} else if t.full(slab) && f.stay(i, t.next(slab)) {
				continue
			}
			hits += answer(s, i, vals, found)
		}
		next = board(f, t, keys, next)
	}
	return hits
}

func prefetchSlabs(slabs []unsafe.Pointer) {
	if len(slabs) > 0 {
		prefetch(&slabs[0], len(slabs))
	}
}

// answer writes what was found for key i, and counts it.
func answer[SK storedKey, V, SV storedVal](s *slot[SK, SV], i int, vals []V, found []bool) (hits int) {
	var v V
	if s != nil {
		v, hits = *(*V)(unsafe.Pointer(&s.val)), 1
	}
	if vals != nil {
		vals[i] = v
	}
	if found != nil {
		found[i] = s != nil
	}
	return hits
}
