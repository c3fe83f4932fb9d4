package linear

import (
	"context"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
)

// Change is for [core.Engine].
func (e *cpuEngine[K, SK, V, SV]) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if err := cpu.Open(s); err != nil {
		return 0, nil, err
	}
	return e.Pieces(ctx, b, cpu.PieceOps, func(w *cpu.Watch, part *batch.Batch) (ran int, failed []uint32) {
		c := e.changer(part)
		ran = c.run(w, e.Dealer.All(part.N))
		c.count()
		return ran, c.Failed
	}, e.together)
}

const (
	// longSearch is how many sectors a search of the changes of a table goes
	// through before no more pieces of a batch run on all cores, which cannot be
	// stopped: with so many for each a piece takes tens of milliseconds.
	longSearch = 1 << 10
	// crowd is how many more operations than others a share of a piece may have. So
	// many on one line take ten milliseconds, too.
	crowd = 1 << 12
)

// changer runs the changes of one piece of a batch, or a share of them.
type changer[K, SK cpu.Key, V, SV cpu.Val] struct {
	cpu.Changes[K, V]
	gen   *generation
	table cpuTable[SK, SV]
	part  cpu.Share
	late  []uint32 // operations that need lines of others
}

func (e *cpuEngine[K, SK, V, SV]) changer(b *batch.Batch) *changer[K, SK, V, SV] {
	g := e.Parts().(*generation)
	return &changer[K, SK, V, SV]{
		Changes: cpu.ChangesOf[K, V](b), gen: g, table: tableOf[SK, SV](g), part: cpu.Share{Hi: g.lines + 1},
	}
}

// together runs the changes of a piece on all cores.
func (e *cpuEngine[K, SK, V, SV]) together(b *batch.Batch) (failed []uint32, ok bool) {
	c := e.changer(b)
	if c.gen.long.Load() {
		return nil, false
	}
	parts := e.Dealer.Out(e.Device, c.table.lines, b.N, func(lo, hi int, lines []uint32) {
		for i, k := range c.Keys[lo:hi] {
			lines[i] = home(c.table.geometry, SK(k)) / lineSectors
		}
	})
	for _, p := range parts {
		if len(p.Ops) > b.N/len(parts)+crowd {
			return nil, false
		}
	}
	late, full := make([][]uint32, len(parts)), make([][]uint32, len(parts))
	var fresh, live atomic.Int64
	e.Device.Parallel(len(parts), 1, func(i, _ int) {
		own := *c
		own.part = parts[i]
		own.run(cpu.NoWatch(), own.part.Ops)
		late[i], full[i] = own.late, own.Failed
		fresh.Add(own.Fresh)
		live.Add(own.Live)
	})
	c.Fresh, c.Live = fresh.Load(), live.Load()
	for _, ops := range late {
		c.run(cpu.NoWatch(), ops)
	}
	c.count()
	return cpu.Merged(append(full, c.Failed)), true
}

// run runs operations in order until the watch stops it.
func (c *changer[K, SK, V, SV]) run(w *cpu.Watch, ops []uint32) (ran int) {
	return cpu.Ahead(w, ops, group, func(ops []uint32, homes *[cpu.Group]uint32) {
		for j, i := range ops {
			homes[j] = home(c.table.geometry, SK(c.Keys[i]))
		}
		c.table.prefetch(homes[:len(ops)])
	}, func(i, home uint32) { w.Work(c.one(i, home)) })
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
			c.late = append(c.late, i)
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

// count adds what was done to the table's counters.
func (c *changer[K, SK, V, SV]) count() {
	to := c.gen.Tally()
	to.Live += uint64(c.Live)
	to.Used += uint64(c.Fresh)
}
