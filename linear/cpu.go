package linear

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// deferredWork is the work that counts for a search beyond the first cache line, in the unit of
// [cpu.Watch.ShouldStop]. It is much more than one, because such searches get longer as the table
// fills.
const deferredWork = 64

// cpuEngine implements engine on the cores of the host. K and V are the types of a batch's columns
// as unsigned integers, SK and SV the types of a slot.
//
// Lookups read without locks. Changes need no atomic operations either. Each core owns a range of
// lines and runs, in batch order, the operations with paths that begin in its range. An operation
// with a path that leaves the range is deferred and runs at the end, on a single core. All
// operations on one key have the same path. So they run on the same core or are deferred together,
// and keep their order.
type cpuEngine[K, SK cpu.Key, V, SV cpu.Val] struct{ cpu.Engine }

func newCPUEngine[K cpu.Key, V cpu.Val, SK cpu.Key, SV cpu.Val](dev device.Host, g geometry, fixed bool) (engine, *core.Leases, error) {
	perLine := lineBytes / int(unsafe.Sizeof(cpu.Slot[SK, SV]{}))
	e := &cpuEngine[K, SK, V, SV]{cpu.Engine{Device: dev, SlotsPerLine: perLine, ShortSearchLoad: overflowLoad}}
	if fixed && g.lines > smallLines {
		e.Capacity, e.MaxUsed = maxKeys(g.lines, perLine), maxUsed(g.lines, perLine)
	}
	gen, err := allocate(dev, g)
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

// ---- lookups ----------------------------------------------------------------

// Lookup implements [core.Engine].
func (e *cpuEngine[K, SK, V, SV]) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	if err := cpu.SyncStream(s); err != nil {
		return 0, 0, err
	}
	keys, answers := batch.View[K](b.Columns[batch.Keys].Host), cpu.AnswersOf[V](b)
	t := tableOf[SK, SV](l.Parts.(*generation))
	return e.RunLookup(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, hits int) {
		return getRange(w, t, keys[lo:hi], answers.Slice(lo, hi))
	})
}

// getRange looks up keys on one core, in groups. While it searches one group, it prefetches the
// first cache lines of the next group's paths. Searches beyond the first cache line run at the end
// of their group.
func getRange[K, SK cpu.Key, V any, SV cpu.Val](w *cpu.Watch, t cpuTable[SK, SV], keys []K, to cpu.Answers[V]) (ran, hits int) {
	var homes [2][cpu.Group]uint32
	prefetchHomes(t, keys[:min(cpu.Group, len(keys))], &homes[0])
	for lo, cur := 0, 0; lo < len(keys); lo, cur = lo+cpu.Group, cur^1 {
		hi := min(lo+cpu.Group, len(keys))
		prefetchHomes(t, keys[hi:min(hi+cpu.Group, len(keys))], &homes[cur^1])

		var deferred, sectors [cpu.Group]uint32
		nDeferred := 0
		for i, k := range keys[lo:hi] {
			h := homes[cur][i]
			s, decided := t.findInFirstLine(cpu.Stored(SK(k), lastSentinel), h)
			if !decided {
				deferred[nDeferred], sectors[nDeferred] = uint32(i), t.pathSector(h, nearSectors)
				nDeferred++
				continue
			}
			hits += cpu.WriteAnswer(&to, lo+i, s)
		}
		t.prefetch(sectors[:nDeferred])
		for _, i := range deferred[:nDeferred] {
			s := t.findInRest(cpu.Stored(SK(keys[lo+int(i)]), lastSentinel), homes[cur][i])
			hits += cpu.WriteAnswer(&to, lo+int(i), s)
		}
		if w.ShouldStop(cpu.Group + nDeferred*deferredWork) {
			return hi, hits
		}
	}
	return len(keys), hits
}

func prefetchHomes[K, SK cpu.Key, SV cpu.Val](t cpuTable[SK, SV], keys []K, homes *[cpu.Group]uint32) {
	for i, k := range keys {
		homes[i] = home(t.geometry, SK(k))
	}
	t.prefetch(homes[:len(keys)])
}
