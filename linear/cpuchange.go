package linear

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
)

// Change is for [core.Engine].
func (e *cpuEngine[K, SK, V, SV]) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	return e.Engine.Change(ctx, s, b, cpu.PieceOps, func(part *batch.Batch) cpu.Loops {
		c := e.changer(part)
		return cpu.Loops{Places: c.places, Quick: func() bool { return !c.gen.long.Load() }, Run: c.run}
	})
}

// longSearch is how many sectors a search of the changes of a table goes through
// before no more pieces of a batch run on all cores, which cannot be stopped:
// with so many for each a piece takes tens of milliseconds.
const longSearch = 1 << 10

// changer runs the changes of one piece of a batch, or a share of them.
type changer[K, SK cpu.Key, V, SV cpu.Val] struct {
	cpu.Changes[K, V]
	gen   *generation
	table cpuTable[SK, SV]
	part  cpu.Share
}

func (e *cpuEngine[K, SK, V, SV]) changer(b *batch.Batch) changer[K, SK, V, SV] {
	g := e.Parts().(*generation)
	return changer[K, SK, V, SV]{Changes: cpu.ChangesOf[K, V](b), gen: g, table: tableOf[SK, SV](g)}
}

// places works out in which lines the paths of operations begin.
func (c *changer[K, SK, V, SV]) places(lo, hi int, lines []uint32) {
	for i, k := range c.Keys[lo:hi] {
		lines[i] = home(c.table.geometry, SK(k)) / lineSectors
	}
}

// run is for [cpu.Loops], by a changer for the share.
func (all *changer[K, SK, V, SV]) run(w *cpu.Watch, s cpu.Share) (ran int, r cpu.Result) {
	c := *all
	c.part = s
	ran = cpu.Ahead(w, s.Ops, cpu.Group, func(ops []uint32, homes *[cpu.Group]uint32) {
		for j, i := range ops {
			homes[j] = home(c.table.geometry, SK(c.Keys[i]))
		}
		c.table.prefetch(homes[:len(ops)])
	}, func(i, home uint32) { w.Work(c.one(i, home)) })
	return ran, c.Result
}

// one runs one operation, and returns how many sectors its search went through
// beyond the first ones.
func (c *changer[K, SK, V, SV]) one(i, home uint32) (read int) {
	kind := c.Kind(i)
	key := cpu.Stored(SK(c.Keys[i]), lastSentinel)
	var s spot[SK, SV]
	switch at := c.table.nearSlot(key, home); {
	case at == nil:
		if s = c.table.search(c.part, home, key); s.late {
			c.Late = append(c.Late, i)
			return s.read
		}
		if s.read > longSearch && !c.gen.long.Load() {
			c.gen.long.Store(true)
		}
	case at.Key == key:
		s.live = at
	default:
		s.free = at
	}
	var o cpu.Outcome
	switch {
	case s.live != nil:
		o = cpu.Present(&c.Changes, i, kind, s.live)
	case kind.Inserts():
		if at := s.choose(c.Reuse); at != nil {
			o = cpu.Insert(&c.Changes, i, key, at)
		} else {
			o.Full = true
		}
	}
	c.Finish(i, o)
	return s.read
}
