package slab

import (
	"context"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// walk follows the chains of keys slab by slab on one core. visit looks at the
// slots of one slab of the chain of key i, and tells whether to go on to the
// next.
func walk[K, SK storedKey, SV storedVal](t *cpuTable[SK, SV], keys []K, visit func(i int, slots []slot[SK, SV]) (on bool)) {
	var flights [2]flight
	next := board(&flights[0], t, keys, 0)
	next = board(&flights[1], t, keys, next)
	for turn := 0; flights[0].n+flights[1].n > 0; turn ^= 1 {
		f := &flights[turn]
		n := f.n
		f.n = 0
		for j, i := range f.who[:n] {
			if slab := f.slabs[j]; visit(i, t.slots(slab)) {
				f.stay(i, t.next(slab))
			}
		}
		next = board(f, t, keys, next)
	}
}

// matches calls yield for the live slots of a slab that hold a stored key, and
// tells whether the chain goes on: an empty slot ends it.
func matches[K storedKey, V storedVal](slots []slot[K, V], key K, yield func(*slot[K, V])) (on bool) {
	for i := range slots {
		switch slots[i].key {
		case key:
			yield(&slots[i])
		case mark[K](markEmpty):
			return false
		}
	}
	return true
}

func (e *cpuEngine[K, SK, V, SV]) tally(ctx context.Context, b *batch.Batch, counts []uint32) error {
	keys := batch.View[K](b.Keys.Host)
	t := tableOf[SK, SV](e.gen)
	return e.keysIn(ctx, b, func(lo, hi int) {
		clear(counts[lo:hi])
		walk(&t, keys[lo:hi], func(i int, slots []slot[SK, SV]) bool {
			return matches(slots, stored(SK(keys[lo+i])), func(*slot[SK, SV]) { counts[lo+i]++ })
		})
	})
}

func (e *cpuEngine[K, SK, V, SV]) collect(ctx context.Context, b *batch.Batch, offsets []uint64, vals []byte) error {
	keys, to := batch.View[K](b.Keys.Host), batch.View[V](vals)
	t := tableOf[SK, SV](e.gen)
	return e.keysIn(ctx, b, func(lo, hi int) {
		at := slices.Clone(offsets[lo:hi])
		walk(&t, keys[lo:hi], func(i int, slots []slot[SK, SV]) bool {
			end := min(offsets[lo+i+1], uint64(len(to)))
			on := matches(slots, stored(SK(keys[lo+i])), func(s *slot[SK, SV]) {
				if at[i] < end {
					to[at[i]] = *(*V)(unsafe.Pointer(&s.val))
					at[i]++
				}
			})
			return on && at[i] < end
		})
	})
}

// tallyOn and collectOn: the memory of a CPU device is host memory.

func (e *cpuEngine[K, SK, V, SV]) tallyOn(s *device.Stream, b *batch.Batch, counts batch.Column) error {
	if err := s.Sync(context.Background()); err != nil {
		return err
	}
	return e.tally(context.Background(), b, batch.View[uint32](counts.Host))
}

func (e *cpuEngine[K, SK, V, SV]) collectOn(s *device.Stream, b *batch.Batch, counts, offsets batch.Column, rows int) error {
	if err := e.tallyOn(s, b, counts); err != nil {
		return err
	}
	first := batch.View[uint64](offsets.Host)
	first[0] = 0
	for i, n := range batch.View[uint32](counts.Host) {
		first[i+1] = first[i] + uint64(n)
	}
	var v V
	return e.collect(context.Background(), b, first, b.Vals.Sub(0, rows, int(unsafe.Sizeof(v))).Host)
}
