package horton

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

// secondaryWork is the work that a lookup counts for a secondary bucket, toward the next check of
// the context. A primary bucket counts 1.
const secondaryWork = 1

// cpuEngine runs on the cores of the host. K and V are the types of keys and values in a batch as
// unsigned integers. SK and SV are their types in a slot.
//
// Lookups read without locks, and changes need no atomic operations. Each core owns a part of the
// lines. It runs, in batch order, the operations with a primary bucket in its part. An operation is
// deferred if it reads a secondary bucket or finds its primary bucket full. One core runs all
// deferred operations at the end. Later operations on the same bucket are also deferred, so
// operations on one key keep their order.
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
		e.generation().long.Store(false)
		e.generation().deleted.Store(0)
	}
	return err
}

func (e *cpuEngine[K, SK, V, SV]) generation() *generation { return e.Parts().(*generation) }

func (e *cpuEngine[K, SK, V, SV]) geometry() geometry { return e.generation().geometry }

func (e *cpuEngine[K, SK, V, SV]) deleted() uint64 { return e.generation().deleted.Load() }

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
		src, dst := tableOf[SK, SV](e.generation()), tableOf[SK, SV](to)
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
	t := tableOf[SK, SV](l.Parts.(*generation))
	return e.RunLookup(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, hits int) {
		g := getter[K, SK, V, SV]{table: t, keys: keys[lo:hi], to: answers.Slice(lo, hi)}
		return g.run(w), g.hits
	})
}

// getter runs lookups on one core.
type getter[K, SK cpu.Key, V any, SV cpu.Val] struct {
	table     cpuTable[SK, SV]
	keys      []K
	to        cpu.Answers[V]
	hits      int
	paths     [2][cpu.Group]path[SK]
	secondary [2]secondaryGroup[SK]
}

// secondaryGroup holds the keys of a group that must be searched for in secondary buckets.
type secondaryGroup[SK cpu.Key] struct {
	n       int
	at      [cpu.Group]uint32 // indexes in getter.keys
	keys    [cpu.Group]SK     // keys in stored form
	buckets [cpu.Group]uint32 // secondary buckets
}

// run looks up keys in groups. While it searches one group, it prefetches the primary buckets of
// the next group and the secondary buckets of the previous one.
func (g *getter[K, SK, V, SV]) run(w *cpu.Watch) (ran int) {
	g.prefetchPaths(0, &g.paths[0])
	for lo, cur := 0, 0; lo < len(g.keys); lo, cur = lo+cpu.Group, cur^1 {
		hi := min(lo+cpu.Group, len(g.keys))
		g.prefetchPaths(hi, &g.paths[cur^1])
		g.searchPrimary(lo, hi, g.paths[cur][:hi-lo], &g.secondary[cur])
		g.searchSecondary(&g.secondary[cur^1])
		if w.ShouldStop(cpu.Group + g.secondary[cur].n*secondaryWork) {
			g.searchSecondary(&g.secondary[cur])
			return hi
		}
	}
	g.searchSecondary(&g.secondary[0])
	g.searchSecondary(&g.secondary[1])
	return len(g.keys)
}

// prefetchPaths computes the paths of a group and prefetches the primary buckets.
func (g *getter[K, SK, V, SV]) prefetchPaths(lo int, paths *[cpu.Group]path[SK]) {
	var buffer [maxPieces * cpu.Group]uint32
	pieces := buffer[:0]
	for i, k := range g.keys[lo:min(lo+cpu.Group, len(g.keys))] {
		paths[i] = pathOf[SK, SV](g.table.geometry, SK(k))
		pieces = g.table.pieces(pieces, paths[i].bucket, g.table.shift)
	}
	cpu.Prefetch(g.table.base, pieces, pieceShift)
}

// searchPrimary searches the primary buckets of keys [lo,hi). It stores the keys that have remap
// entries in a secondary group, and prefetches their secondary buckets.
func (g *getter[K, SK, V, SV]) searchPrimary(lo, hi int, paths []path[SK], to *secondaryGroup[SK]) {
	var buffer [maxPieces * cpu.Group]uint32
	pieces := buffer[:0]
	to.n = 0
	for i, p := range paths {
		slots := g.table.bucket(p.bucket)
		s := find(slots, p.key)
		if isSentinel(p.key) {
			if s = g.table.sentinelSlot(p); isSentinel(s.Key) {
				s = nil
			}
		} else if s == nil {
			if b, ok := g.table.remappedBucket(slots, p); ok {
				to.at[to.n], to.keys[to.n], to.buckets[to.n] = uint32(lo+i), p.key, b
				to.n++
				pieces = g.table.pieces(pieces, b, g.table.secondaryShift())
				continue
			}
		}
		g.hits += cpu.WriteAnswer(&g.to, lo+i, s)
	}
	cpu.Prefetch(g.table.base, pieces, pieceShift)
}

func (g *getter[K, SK, V, SV]) searchSecondary(f *secondaryGroup[SK]) {
	for i := range f.n {
		g.hits += cpu.WriteAnswer(&g.to, int(f.at[i]), find(g.table.secondaryBucket(f.buckets[i]), f.keys[i]))
	}
	f.n = 0
}

// Export implements [core.Engine].
func (e *cpuEngine[K, SK, V, SV]) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (int, error) {
	g := l.Parts.(*generation)
	t, rows := tableOf[SK, SV](g), cpu.RowsOf[K, V](out)
	err := cpu.Walk(ctx, g.Memory(), lo, hi, func(line uint32) {
		slots := t.line(line)
		for i := range slots {
			if key, ok := t.keyIn(line, &slots[i]); ok {
				cpu.AddRow(&rows, K(key), &slots[i])
			}
		}
	})
	return rows.N, err
}

func (e *cpuEngine[K, SK, V, SV]) countBuckets(ctx context.Context) (sum bucketCounts, err error) {
	t := tableOf[SK, SV](e.generation())
	var mu sync.Mutex
	e.Device.Parallel(int(t.buckets), 1<<12, func(lo, hi int) {
		if ctx.Err() != nil {
			return
		}
		c := t.countBuckets(uint32(lo), uint32(hi))
		mu.Lock()
		defer mu.Unlock()
		sum.arrays += c.arrays
		sum.entries += c.entries
		sum.secondary += c.secondary
		sum.displaced += c.displaced
		sum.full += c.full
	})
	return sum, ctx.Err()
}
