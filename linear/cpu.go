package linear

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// farWork is the work charged for a search beyond the first lines, which lasts longer the fuller
// the table is.
const farWork = 64

// cpuEngine runs on the cores of the host. K and V are the types of a batch's columns as unsigned
// integers, SK and SV those of a slot.
//
// Lookups read without locks. Changes need no atomic operations either. Each core owns a part of
// the lines and runs, in batch order, the operations with paths that begin in its part. An
// operation with a path that leaves the part is deferred and runs alone at the end. All operations
// on one key have one path, so they share a core and are deferred together, and the batch's order
// is kept.
type cpuEngine[K, SK cpu.Key, V, SV cpu.Val] struct{ cpu.Engine }

func newCPUEngine[K cpu.Key, V cpu.Val, SK cpu.Key, SV cpu.Val](dev device.Host, g geometry, fixed bool) (engine, *core.Leases, error) {
	perLine := lineBytes / int(unsafe.Sizeof(cpu.Slot[SK, SV]{}))
	e := &cpuEngine[K, SK, V, SV]{cpu.Engine{Device: dev, Slots: perLine, Fullest: crowdedShare}}
	if fixed && g.lines > smallLines {
		e.Capacity, e.MostUsed = maxKeys(g.lines, perLine), maxUsed(g.lines, perLine)
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

// Look implements [core.Engine].
func (e *cpuEngine[K, SK, V, SV]) Look(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	if err := cpu.Open(s); err != nil {
		return 0, 0, err
	}
	keys, answers := batch.View[K](b.Columns[batch.Keys].Host), cpu.AnswersOf[V](b)
	t := tableOf[SK, SV](l.Parts.(*generation))
	return e.Each(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, hits int) {
		return getRange(w, t, keys[lo:hi], answers.Of(lo, hi))
	})
}

// getRange looks up keys on one core, in groups. While it searches one group, it prefetches the
// first cache lines of the paths of the next. Searches that go beyond their first cache line are
// deferred to the end of the group.
func getRange[K, SK cpu.Key, V any, SV cpu.Val](w *cpu.Watch, t cpuTable[SK, SV], keys []K, to cpu.Answers[V]) (ran, hits int) {
	var homes [2][cpu.Group]uint32
	ask(t, keys[:min(cpu.Group, len(keys))], &homes[0])
	for lo, turn := 0, 0; lo < len(keys); lo, turn = lo+cpu.Group, turn^1 {
		hi := min(lo+cpu.Group, len(keys))
		ask(t, keys[hi:min(hi+cpu.Group, len(keys))], &homes[turn^1])

		var far, next [cpu.Group]uint32
		late := 0
		for i, k := range keys[lo:hi] {
			h := homes[turn][i]
			s, over := t.findNear(cpu.Stored(SK(k), lastSentinel), h)
			if !over {
				far[late], next[late] = uint32(i), t.next(h, near)
				late++
				continue
			}
			hits += cpu.Write(&to, lo+i, s)
		}
		t.prefetch(next[:late])
		for _, i := range far[:late] {
			s := t.findFar(cpu.Stored(SK(keys[lo+int(i)]), lastSentinel), homes[turn][i])
			hits += cpu.Write(&to, lo+int(i), s)
		}
		if w.Over(cpu.Group + late*farWork) {
			return hi, hits
		}
	}
	return len(keys), hits
}

// ask computes where the paths of a group begin, and prefetches it.
func ask[K, SK cpu.Key, SV cpu.Val](t cpuTable[SK, SV], keys []K, homes *[cpu.Group]uint32) {
	for i, k := range keys {
		homes[i] = home(t.geometry, SK(k))
	}
	t.prefetch(homes[:len(keys)])
}
