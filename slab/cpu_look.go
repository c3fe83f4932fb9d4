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

// group is the number of operations that are processed while the memory of the next group is
// prefetched. A slab takes two cache lines. Lookups of 10^7 keys at load 0.55 took 28 ns with
// groups of 8, and 31 ns with groups of 16 or 32. Misses took as long.
const group = 8

// Lookup implements core.Engine.
func (e *cpuEngine[K, SK, V, SV]) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	if err := cpu.SyncStream(s); err != nil {
		return 0, 0, err
	}
	keys, t := batch.View[K](b.Columns[batch.Keys].Host), tableOf[SK, SV](l.Parts.(*generation))
	if counts := batch.View[uint32](b.Columns[batch.Counts].Host); counts != nil {
		return e.RunLookup(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, hits int) {
			return countRange(w, &t, keys[lo:hi], counts[lo:hi]), 0
		})
	}
	answers := cpu.AnswersOf[V](b)
	return e.RunLookup(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, hits int) {
		return getRange(w, &t, keys[lo:hi], answers.Slice(lo, hi))
	})
}

// Expand implements core.Expander.
func (e *cpuEngine[K, SK, V, SV]) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch) error {
	if s == nil {
		return e.expand(ctx, l, b)
	}
	if _, _, err := e.Lookup(ctx, s, l, b, 0); err != nil {
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

// expand writes the values of each key to Vals, at the key's offset. It drops values that do not
// fit.
func (e *cpuEngine[K, SK, V, SV]) expand(ctx context.Context, l *core.Lease, b *batch.Batch) error {
	keys, to := batch.View[K](b.Columns[batch.Keys].Host), batch.View[V](b.Columns[batch.Vals].Host)
	offsets := b.Columns[batch.Vals].Offsets
	first, rows := offsets[0], uint64(len(to))
	t := tableOf[SK, SV](l.Parts.(*generation))
	_, _, err := e.RunLookup(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, hits int) {
		at := slices.Clone(offsets[lo:hi])
		return walkChains(w, &t, keys[lo:hi], func(i int, slots []cpu.Slot[SK, SV]) bool {
			end := min(offsets[lo+i+1], first+rows)
			continues := visitMatches(slots, cpu.Stored(SK(keys[lo+i]), lastSentinel), func(s *cpu.Slot[SK, SV]) {
				if at[i] < end {
					to[at[i]-first] = *(*V)(unsafe.Pointer(&s.Val))
					at[i]++
				}
			})
			return continues && at[i] < end
		}), 0
	})
	return err
}

// probeGroup is a group of keys, each with the next slab of its chain, which is being prefetched.
type probeGroup struct {
	n     int
	keys  [group]int
	slabs [group]unsafe.Pointer
}

// add adds key i and the next slab of its chain to the group. If next is nil, it adds nothing and
// returns false.
func (f *probeGroup) add(i int, next unsafe.Pointer) bool {
	if next == nil {
		return false
	}
	f.keys[f.n], f.slabs[f.n] = i, next
	f.n++
	return true
}

// firstKey returns the smallest key index in the group, or next if that is smaller.
func (f *probeGroup) firstKey(next int) int {
	for _, i := range f.keys[:f.n] {
		next = min(next, i)
	}
	return next
}

// fillGroup fills a group with keys, beginning at index next, and their base slabs, and prefetches
// all slabs of the group. It returns the index of the first key not added.
func fillGroup[K, SK cpu.Key, SV cpu.Val](f *probeGroup, t *cpuTable[SK, SV], keys []K, next int) int {
	for ; f.n < group && next < len(keys); next++ {
		f.keys[f.n], f.slabs[f.n] = next, t.base(locate(t, keys[next]))
		f.n++
	}
	cpu.PrefetchPairs(f.slabs[:f.n])
	return next
}

// getRange looks up keys on one core. It reads one slab for each key of a group while the slabs of
// the other group are prefetched. If the watch stops it, keys of both groups lack a result, so
// getRange returns 0.
func getRange[K, SK cpu.Key, V any, SV cpu.Val](w *cpu.Watch, t *cpuTable[SK, SV], keys []K, to cpu.Answers[V]) (ran, hits int) {
	var groups [2]probeGroup
	next := fillGroup(&groups[0], t, keys, 0)
	next = fillGroup(&groups[1], t, keys, next)
	for cur := 0; groups[0].n+groups[1].n > 0; cur ^= 1 {
		f := &groups[cur]
		if w.ShouldStop(f.n) {
			return 0, 0
		}
		var at [group]int
		for j, i := range f.keys[:f.n] {
			at[j] = match[SK, SV](f.slabs[j], cpu.Stored(SK(keys[i]), lastSentinel))
		}
		n := f.n
		f.n = 0
		for j, i := range f.keys[:n] {
			slab := f.slabs[j]
			var s *cpu.Slot[SK, SV]
			if at[j] < t.perSlab() {
				s = &t.slots(slab)[at[j]]
			} else if t.full(slab) && f.add(i, t.next(slab)) {
				continue
			}
			hits += cpu.WriteAnswer(&to, i, s)
		}
		next = fillGroup(f, t, keys, next)
	}
	return len(keys), hits
}

// walkChains follows the chains of keys slab by slab on one core. visit receives the slots of one
// slab of the chain of key i, and reports whether to continue with the next slab. If the watch
// stops the walk, ran is the number of leading keys that are done.
func walkChains[K, SK cpu.Key, SV cpu.Val](w *cpu.Watch, t *cpuTable[SK, SV], keys []K, visit func(i int, slots []cpu.Slot[SK, SV]) (continues bool)) (ran int) {
	var groups [2]probeGroup
	next := fillGroup(&groups[0], t, keys, 0)
	next = fillGroup(&groups[1], t, keys, next)
	for cur := 0; groups[0].n+groups[1].n > 0; cur ^= 1 {
		f := &groups[cur]
		if w.ShouldStop(f.n) {
			return groups[1].firstKey(groups[0].firstKey(next))
		}
		n := f.n
		f.n = 0
		for j, i := range f.keys[:n] {
			if slab := f.slabs[j]; visit(i, t.slots(slab)) {
				f.add(i, t.next(slab))
			}
		}
		next = fillGroup(f, t, keys, next)
	}
	return len(keys)
}

// visitMatches calls yield for the slots of a slab that hold key, in its stored form. It reports
// whether the chain continues, which an empty slot ends.
func visitMatches[K cpu.Key, V cpu.Val](slots []cpu.Slot[K, V], key K, yield func(*cpu.Slot[K, V])) (continues bool) {
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

// countRange counts the pairs of each key on one core, until the watch stops it.
func countRange[K, SK cpu.Key, SV cpu.Val](w *cpu.Watch, t *cpuTable[SK, SV], keys []K, counts []uint32) (ran int) {
	clear(counts)
	return walkChains(w, t, keys, func(i int, slots []cpu.Slot[SK, SV]) bool {
		return visitMatches(slots, cpu.Stored(SK(keys[i]), lastSentinel), func(*cpu.Slot[SK, SV]) { counts[i]++ })
	})
}
