package cuckoo

import (
	"context"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// deferredWork is the work that a lookup counts for the other buckets of a key, toward the next
// check of the context. The first bucket counts 1.
const deferredWork = 2

// cpuEngine runs on the cores of the host. K and V are the types of keys and values in a batch as
// unsigned integers. SK and SV are their types in a slot.
//
// Lookups read without locks, and changes need no atomic operations. Each core owns a part of the
// lines. It runs, in batch order, the operations with a first bucket in its part. An operation is
// deferred if it reads buckets of other parts or moves keys. One core runs all deferred operations
// at the end. Operations on one key keep their order: an operation is deferred if its key is not in
// the first bucket and that bucket has no empty slot. Only operations on the key could put it
// there, so later ones are deferred, too. A delete, however, may free a slot in full buckets. So an
// operation deferred for full buckets records its key, and later operations on that key are also
// deferred.
type cpuEngine[K, SK cpu.Key, V, SV cpu.Val] struct {
	cpu.Engine
	mode
}

func newCPUEngine[K cpu.Key, V cpu.Val, SK cpu.Key, SV cpu.Val](dev device.Host, first bucket.Size, m mode) (engine, *core.Leases, error) {
	e := &cpuEngine[K, SK, V, SV]{mode: m}
	e.Engine = cpu.Engine{Device: dev, SlotsPerLine: lineBytes / int(unsafe.Sizeof(cpu.Slot[SK, SV]{})), Capacity: m.capacity}
	gen, err := allocate(dev, m.layout.geometry(first))
	if err != nil {
		return nil, nil, err
	}
	leases, err := e.Start(gen)
	return e, leases, err
}

// Clear implements [core.Engine].
func (e *cpuEngine[K, SK, V, SV]) Clear(ctx context.Context) error {
	err := e.Engine.Clear(ctx)
	if err == nil {
		e.Parts().(*generation).long.Store(false)
	}
	return err
}

func (e *cpuEngine[K, SK, V, SV]) geometry() geometry { return e.Parts().(*generation).geometry }

// Size implements [bucket.Engine].
func (e *cpuEngine[K, SK, V, SV]) Size() bucket.Size { return e.geometry().Size() }

// Rehash implements [bucket.Engine].
func (e *cpuEngine[K, SK, V, SV]) Rehash(ctx context.Context, size bucket.Size) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	to, err := allocate(e.Device, e.layout.geometry(size))
	if err != nil {
		return err
	}
	return e.Move(ctx, to, func() error {
		src, dst := tableOf[SK, SV](e.Parts().(*generation), e.mode), tableOf[SK, SV](to, e.mode)
		n, err := bucket.Copy(ctx, e.Device, &src, &dst)
		*to.Tally() = core.Tally{Live: n, Used: n}
		return err
	})
}

// Lookup implements [core.Engine].
func (e *cpuEngine[K, SK, V, SV]) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	if err := cpu.SyncStream(s); err != nil {
		return 0, 0, err
	}
	keys, answers := batch.View[K](b.Columns[batch.Keys].Host), cpu.AnswersOf[V](b)
	t := tableOf[SK, SV](l.Parts.(*generation), e.mode)
	return e.RunLookup(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, hits int) {
		return getRange(w, t, keys[lo:hi], answers.Slice(lo, hi))
	})
}

// getRange looks up keys on one core, in groups. While it searches one group, it prefetches the
// first buckets of the next group, and with AllBuckets also the second ones. It searches the other
// buckets of keys at the end of their group.
func getRange[K, SK cpu.Key, V any, SV cpu.Val](w *cpu.Watch, t cpuTable[SK, SV], keys []K, to cpu.Answers[V]) (ran, hits int) {
	var paths [2][cpu.Group]path
	prefetchPaths(&t, keys[:min(cpu.Group, len(keys))], &paths[0])
	for lo, cur := 0, 0; lo < len(keys); lo, cur = lo+cpu.Group, cur^1 {
		hi := min(lo+cpu.Group, len(keys))
		prefetchPaths(&t, keys[hi:min(hi+cpu.Group, len(keys))], &paths[cur^1])

		var deferred, pieces [cpu.Group]uint32
		nDeferred := 0
		for i, k := range keys[lo:hi] {
			key, p := SK(k), paths[cur][i]
			if isSentinel(key) {
				s := t.sentinelSlot(^key)
				if s.Key != ^key {
					s = nil
				}
				hits += cpu.WriteAnswer(&to, lo+i, s)
				continue
			}
			s, hasEmpty := find(t.bucket(p.first), key)
			if s == nil && !t.endsSearch(hasEmpty) {
				deferred[nDeferred], pieces[nDeferred] = uint32(i), t.piece(p.second)
				nDeferred++
				continue
			}
			hits += cpu.WriteAnswer(&to, lo+i, s)
		}
		if !t.readsAll {
			cpu.Prefetch(t.base, pieces[:nDeferred], pieceShift)
		}
		for _, i := range deferred[:nDeferred] {
			s := t.findFrom(1, paths[cur][i], SK(keys[lo+int(i)]))
			hits += cpu.WriteAnswer(&to, lo+int(i), s)
		}
		if w.ShouldStop(cpu.Group + nDeferred*deferredWork) {
			return hi, hits
		}
	}
	return len(keys), hits
}

// prefetchPaths computes the paths of a group of keys, and prefetches the first buckets.
func prefetchPaths[K, SK cpu.Key, SV cpu.Val](t *cpuTable[SK, SV], keys []K, paths *[cpu.Group]path) {
	var pieces [2 * cpu.Group]uint32
	n := 0
	for i, k := range keys {
		p := pathOf(t.geometry, SK(k))
		paths[i], pieces[n] = p, t.piece(p.first)
		n++
		if t.readsAll {
			pieces[n] = t.piece(p.second)
			n++
		}
	}
	cpu.Prefetch(t.base, pieces[:n], pieceShift)
}

// Export implements [core.Engine].
func (e *cpuEngine[K, SK, V, SV]) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (int, error) {
	g := l.Parts.(*generation)
	t := tableOf[SK, SV](g, e.mode)
	return cpu.Export[K, V](ctx, out, g.Memory(), lo, hi, lastSentinel, func(line uint32, slots func([]cpu.Slot[SK, SV])) {
		slots(t.line(line))
	})
}

func (e *cpuEngine[K, SK, V, SV]) countBuckets(ctx context.Context) (sum bucketCounts, err error) {
	t := tableOf[SK, SV](e.Parts().(*generation), e.mode)
	var mu sync.Mutex
	e.Device.Parallel(int(t.buckets), 1<<12, func(lo, hi int) {
		if ctx.Err() != nil {
			return
		}
		c := t.countBuckets(uint32(lo), uint32(hi))
		mu.Lock()
		defer mu.Unlock()
		sum.passed += c.passed
		sum.full += c.full
	})
	for range t.Live(t.bucketLines(), t.lines) {
		sum.stashed++
	}
	return sum, ctx.Err()
}
