package slab

import (
	"context"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// group is the number of operations processed while the memory of as many more is prefetched. A
// slab is two cache lines. Lookups of 10^7 keys at load 0.55 took 28 ns with groups of 8, 31 with
// 16 or 32; misses the same.
const group = 8

// Look implements core.Engine.
func (e *cpuEngine[K, SK, V, SV]) Look(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	if err := cpu.Open(s); err != nil {
		return 0, 0, err
	}
	keys, t := batch.View[K](b.Columns[batch.Keys].Host), tableOf[SK, SV](l.Parts.(*generation))
	if counts := batch.View[uint32](b.Columns[batch.Counts].Host); counts != nil {
		return e.Each(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, hits int) {
			return countRange(w, &t, keys[lo:hi], counts[lo:hi]), 0
		})
	}
	answers := cpu.AnswersOf[V](b)
	return e.Each(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, hits int) {
		return getRange(w, &t, keys[lo:hi], answers.Of(lo, hi))
	})
}

// Expand implements core.Expander.
func (e *cpuEngine[K, SK, V, SV]) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch) error {
	if s == nil {
		return e.expand(ctx, l, b)
	}
	if _, _, err := e.Look(ctx, s, l, b, 0); err != nil {
		return err
	}
	offsets := batch.View[uint64](b.Columns[batch.Offsets].Host)
	offsets[0] = 0
	for i, n := range batch.View[uint32](b.Columns[batch.Counts].Host) {
		offsets[i+1] = offsets[i] + uint64(n)
	}
	host := *b
	host.Columns[batch.Vals].Offsets = offsets
	return e.expand(ctx, l, &host)
}

// expand writes the values of each key, up to the available rows.
func (e *cpuEngine[K, SK, V, SV]) expand(ctx context.Context, l *core.Lease, b *batch.Batch) error {
	keys, to := batch.View[K](b.Columns[batch.Keys].Host), batch.View[V](b.Columns[batch.Vals].Host)
	offsets := b.Columns[batch.Vals].Offsets
	first, rows := offsets[0], uint64(len(to))
	t := tableOf[SK, SV](l.Parts.(*generation))
	_, _, err := e.Each(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, hits int) {
		at := slices.Clone(offsets[lo:hi])
		return walk(w, &t, keys[lo:hi], func(i int, slots []cpu.Slot[SK, SV]) bool {
			end := min(offsets[lo+i+1], first+rows)
			on := matches(slots, cpu.Stored(SK(keys[lo+i]), lastSentinel), func(s *cpu.Slot[SK, SV]) {
				if at[i] < end {
					to[at[i]-first] = *(*V)(unsafe.Pointer(&s.Val))
					at[i]++
				}
			})
			return on && at[i] < end
		}), 0
	})
	return err
}

// flight is a group of keys with their next slabs, which are being prefetched.
type flight struct {
	n     int
	who   [group]int
	slabs [group]unsafe.Pointer
}

// stay adds a key to the flight, now n long, if its bucket continues with slab next.
func (f *flight) stay(i int, next unsafe.Pointer) bool {
	if next == nil {
		return false
	}
	f.who[f.n], f.slabs[f.n] = i, next
	f.n++
	return true
}

// first returns the first key in the flight, or next if the flight is empty.
func (f *flight) first(next int) int {
	for _, i := range f.who[:f.n] {
		next = min(next, i)
	}
	return next
}

// board fills a flight up with the base slabs of keys from number next on, prefetches all of its
// slabs, and returns the new next number.
func board[K, SK cpu.Key, SV cpu.Val](f *flight, t *cpuTable[SK, SV], keys []K, next int) int {
	for ; f.n < group && next < len(keys); next++ {
		f.who[f.n], f.slabs[f.n] = next, t.base(locate(t, keys[next]))
		f.n++
	}
	cpu.PrefetchPairs(f.slabs[:f.n])
	return next
}

// getRange looks up keys on one core. It reads a slab of each key of one flight while the slabs of
// the other flight are prefetched. If the watch stops it, keys in flight have no answer, and
// getRange counts as not begun.
func getRange[K, SK cpu.Key, V any, SV cpu.Val](w *cpu.Watch, t *cpuTable[SK, SV], keys []K, to cpu.Answers[V]) (ran, hits int) {
	var flights [2]flight
	next := board(&flights[0], t, keys, 0)
	next = board(&flights[1], t, keys, next)
	for turn := 0; flights[0].n+flights[1].n > 0; turn ^= 1 {
		f := &flights[turn]
		if w.Over(f.n) {
			return 0, 0
		}
		var at [group]int
		for j, i := range f.who[:f.n] {
			at[j] = match[SK, SV](f.slabs[j], cpu.Stored(SK(keys[i]), lastSentinel))
		}
		n := f.n
		f.n = 0
		for j, i := range f.who[:n] {
			slab := f.slabs[j]
			var s *cpu.Slot[SK, SV]
			if at[j] < t.perSlab() {
				s = &t.slots(slab)[at[j]]
			} else if t.full(slab) && f.stay(i, t.next(slab)) {
				continue
			}
			hits += cpu.Write(&to, i, s)
		}
		next = board(f, t, keys, next)
	}
	return len(keys), hits
}

// walk follows the chains of keys slab by slab on one core. visit reads the slots of one slab of
// the chain of key i. It reports whether to continue with the next slab. If the watch stops the
// walk, ran is the number of leading keys that are done.
func walk[K, SK cpu.Key, SV cpu.Val](w *cpu.Watch, t *cpuTable[SK, SV], keys []K, visit func(i int, slots []cpu.Slot[SK, SV]) (on bool)) (ran int) {
	var flights [2]flight
	next := board(&flights[0], t, keys, 0)
	next = board(&flights[1], t, keys, next)
	for turn := 0; flights[0].n+flights[1].n > 0; turn ^= 1 {
		f := &flights[turn]
		if w.Over(f.n) {
			return flights[1].first(flights[0].first(next))
		}
		n := f.n
		f.n = 0
		for j, i := range f.who[:n] {
			if slab := f.slabs[j]; visit(i, t.slots(slab)) {
				f.stay(i, t.next(slab))
			}
		}
		next = board(f, t, keys, next)
	}
	return len(keys)
}

// matches calls yield for the live slots of a slab that hold a stored key. It reports whether the
// chain continues: an empty slot ends it.
func matches[K cpu.Key, V cpu.Val](slots []cpu.Slot[K, V], key K, yield func(*cpu.Slot[K, V])) (on bool) {
	for i := range slots {
		switch slots[i].Key {
		case key:
			yield(&slots[i])
		case cpu.Sentinel[K](cpu.Empty):
			return false
		}
	}
	return true
}

// countRange counts the pairs of keys on one core, until the watch stops it.
func countRange[K, SK cpu.Key, SV cpu.Val](w *cpu.Watch, t *cpuTable[SK, SV], keys []K, counts []uint32) (ran int) {
	clear(counts)
	return walk(w, t, keys, func(i int, slots []cpu.Slot[SK, SV]) bool {
		return matches(slots, cpu.Stored(SK(keys[i]), lastSentinel), func(*cpu.Slot[SK, SV]) { counts[i]++ })
	})
}
