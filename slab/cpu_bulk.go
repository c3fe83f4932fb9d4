package slab

import (
	"context"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// bulkGrain is the number of buckets that a core processes at a time when all buckets are read.
const bulkGrain = 1 << 12

// ---- rehash -----------------------------------------------------------------

func (e *cpuEngine[K, SK, V, SV]) rehash(ctx context.Context, buckets uint32, units int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	from := e.Parts().(*generation)
	to, err := allocate(e.Device, geometry{seed: from.seed, buckets: buckets}, units, e.fixed)
	if err != nil {
		return err
	}
	err = e.Move(ctx, to, func() error { return e.move(ctx, from, to) })
	if err != nil {
		return fmt.Errorf("rehash to %d buckets: %w", buckets, err)
	}
	return nil
}

// move copies the live pairs of one generation to an empty generation, on all cores. If ctx ends,
// it stops at any pair.
func (e *cpuEngine[K, SK, V, SV]) move(ctx context.Context, from, to *generation) error {
	shares := min(cpu.SharesPerCore*e.Device.Properties().Units, int(to.buckets))
	movers := make([]mover[SK, SV], shares+1)
	e.Device.Parallel(len(movers), 1, func(i, _ int) {
		m := mover[SK, SV]{src: tableOf[SK, SV](from), dst: tableOf[SK, SV](to), watch: cpu.NewWatch(ctx)}
		m.units = m.dst.units.Worker()
		if i < shares {
			cut := func(i int) uint32 { return uint32(uint64(to.buckets) * uint64(i) / uint64(shares)) }
			m.move(cut(i), cut(i+1))
		} else {
			m.moveExtra()
		}
		movers[i] = m
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	n, nDeferred := uint64(0), 0
	for i := range movers {
		n += movers[i].moved
		nDeferred += len(movers[i].deferred)
	}
	if nDeferred > 0 {
		if err := to.units.Reserve(ctx, nDeferred); err != nil {
			return err
		}
		m := mover[SK, SV]{dst: tableOf[SK, SV](to), watch: cpu.NewWatch(ctx)}
		m.units = m.dst.units.Worker()
		for i := range movers {
			for j := range movers[i].deferred {
				if m.watch.ShouldStop(1) {
					return ctx.Err()
				}
				m.insert(movers[i].deferred[j].bucket, &movers[i].deferred[j].slot)
			}
		}
		n += m.moved
	}
	*to.Tally() = core.Tally{Live: n, Used: n}
	return nil
}

// mover copies pairs to a range of new buckets. It defers the pairs that find no unit until the
// pool has grown. Once a bucket lacks a unit, all its later pairs are deferred, so that the pairs
// of a key keep their order.
type mover[K cpu.Key, V cpu.Val] struct {
	src, dst cpuTable[K, V]
	units    alloc.Worker
	watch    cpu.Watch
	moved    uint64
	deferred []deferredPair[K, V]
}

type deferredPair[K cpu.Key, V cpu.Val] struct {
	bucket uint32
	slot   cpu.Slot[K, V]
}

// move copies the pairs of the new buckets [lo,hi). Tables of any size have their buckets in hash
// order, so these pairs come from a range of old buckets. The first and last of these may also hold
// pairs for other movers.
func (m *mover[K, V]) move(lo, hi uint32) {
	from, to := uint64(m.src.buckets), uint64(m.dst.buckets)
	first, last := uint64(lo)*from/to, (uint64(hi)*from-1)/to
	for s := range m.src.live(uint32(first), uint32(last)+1) {
		if m.watch.ShouldStop(1) {
			return
		}
		if b := bucketOf(m.dst.geometry, s.Key); b >= lo && b < hi {
			m.insert(b, s)
		}
	}
}

// moveExtra copies the pairs of the extra bucket.
func (m *mover[K, V]) moveExtra() {
	for s := range m.src.live(m.src.buckets, m.src.buckets+1) {
		if m.watch.ShouldStop(1) {
			return
		}
		m.insert(m.dst.buckets, s)
	}
}

func (m *mover[K, V]) insert(bucket uint32, s *cpu.Slot[K, V]) {
	at := m.dst.appendSlot(m.dst.base(bucket), &m.units)
	if at == nil {
		m.deferred = append(m.deferred, deferredPair[K, V]{bucket, *s})
		return
	}
	*at = *s
	m.moved++
}

// ---- flush ------------------------------------------------------------------

// flush drops the dead slots of all buckets. If ctx ends, it stops between two buckets.
func (e *cpuEngine[K, SK, V, SV]) flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g := e.Parts().(*generation)
	t := tableOf[SK, SV](g)
	var dropped atomic.Uint64
	e.Device.Parallel(int(t.buckets)+1, bulkGrain, func(lo, hi int) {
		n, w := uint64(0), cpu.NewWatch(ctx)
		for b := lo; b < hi && !w.ShouldStop(1); b++ {
			n += uint64(t.flush(t.base(uint32(b)), &w))
		}
		dropped.Add(n)
	})
	g.Tally().Used -= dropped.Load()
	return ctx.Err()
}

// flush moves the live slots of a bucket to its front, frees the slabs that become empty, and
// returns the number of dead slots dropped.
func (t *cpuTable[K, V]) flush(base unsafe.Pointer, w *cpu.Watch) (dropped int) {
	to, n, tail := base, 0, noUnit // position of the next live slot, and address of its slab
	for from := base; from != nil; from = t.next(from) {
		w.AddWork(1)
		slots := t.slots(from)
		for i := range slots {
			switch slots[i].Key {
			case cpu.Sentinel[K](cpu.Empty):
				continue
			case cpu.Sentinel[K](cpu.Dead):
				dropped++
				continue
			}
			if n == len(slots) {
				tail = linkOf(to).next
				to, n = t.unit(tail), 0
			}
			if dropped > 0 {
				t.slots(to)[n] = slots[i]
			}
			n++
		}
	}
	if dropped > 0 || linkOf(to).next != noUnit {
		t.truncate(to, n)
		linkOf(base).tail = tail
	}
	return dropped
}

// truncate ends a bucket after the first n slots of a slab. It empties the other slots and frees
// the following units.
func (t *cpuTable[K, V]) truncate(slab unsafe.Pointer, n int) {
	var s cpu.Slot[K, V]
	unit := linkOf(slab).next
	fillOnes(slab, n*int(unsafe.Sizeof(s)), linkAt)
	linkOf(slab).next = noUnit
	for unit != noUnit {
		slab := t.unit(unit)
		next := linkOf(slab).next
		fillOnes(slab, 0, slabBytes)
		t.units.Free(unit)
		unit = next
	}
}

// fillOnes sets all bits of bytes [lo,hi) of a slab.
func fillOnes(slab unsafe.Pointer, lo, hi int) {
	words := (*[slabBytes / 4]uint32)(slab)
	for i := lo / 4; i < hi/4; i++ {
		words[i] = ^uint32(0)
	}
}

// ---- reading ----------------------------------------------------------------

// Export implements core.Engine.
func (e *cpuEngine[K, SK, V, SV]) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (int, error) {
	g := l.Parts.(*generation)
	t := tableOf[SK, SV](g)
	return cpu.Export[K, V](ctx, out, g.Memory(), lo, hi, lastSentinel, func(bucket uint32, slots func([]cpu.Slot[SK, SV])) {
		for slab := t.base(bucket); slab != nil; slab = t.next(slab) {
			slots(t.slots(slab))
		}
	})
}

// chains implements engine. Class i is the number of buckets with i slabs, including the extra
// bucket.
func (e *cpuEngine[K, SK, V, SV]) chains(ctx context.Context) (classes [chainLengths]uint64, err error) {
	t := tableOf[SK, SV](e.Parts().(*generation))
	var sum [chainLengths]atomic.Uint64
	e.Device.Parallel(int(t.buckets)+1, bulkGrain, func(lo, hi int) {
		var local [chainLengths]uint64
		w := cpu.NewWatch(ctx)
		for b := lo; b < hi && !w.ShouldStop(1); b++ {
			length := 0
			for slab := t.base(uint32(b)); slab != nil && length < chainLengths-1; slab = t.next(slab) {
				length++
			}
			local[length]++
		}
		for i, n := range local {
			sum[i].Add(n)
		}
	})
	for i := range sum {
		classes[i] = sum[i].Load()
	}
	return classes, ctx.Err()
}
