package slab

import (
	"context"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// Change is for [core.Engine].
func (e *cpuEngine[K, SK, V, SV]) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if err := cpu.Open(s); err != nil {
		return 0, nil, err
	}
	size := cpu.PieceOps
	if g := e.Parts().(*generation); g.long.Load() || g.buckets < longPiece {
		size = longPiece
	}
	return e.Pieces(ctx, b, size, func(w *cpu.Watch, part *batch.Batch) (ran int, failed []uint32) {
		c := e.changer(part)
		ran = c.run(w, e.Dealer.All(part.N))
		c.count()
		return ran, c.Failed
	}, e.together)
}

const (
	// longPiece is the size of pieces where chains are long or may become so.
	longPiece = 1 << 13
	// longWork is how many slabs the searches of a piece go through at most if
	// all cores work on it: ten milliseconds' work of one core.
	longWork = 1 << 17
	// crowd is how many more operations than others a share of it may have. So
	// many on one bucket, which grows meanwhile, take ten milliseconds, too.
	crowd = 1 << 12
)

// changer runs the changes of one piece of a batch, or a share of them.
type changer[K, SK cpu.Key, V, SV cpu.Val] struct {
	cpu.Changes[K, V]
	gen   *generation
	table cpuTable[SK, SV]
	units alloc.Worker
	dead  bool // there may be dead slots
}

func (e *cpuEngine[K, SK, V, SV]) changer(b *batch.Batch) *changer[K, SK, V, SV] {
	g := e.Parts().(*generation)
	now := g.Tally()
	c := &changer[K, SK, V, SV]{
		Changes: cpu.ChangesOf[K, V](b),
		gen:     g,
		table:   tableOf[SK, SV](g),
		dead:    now.Used > now.Live || b.Columns[batch.Kinds].Given(),
	}
	c.units = c.table.units.Worker()
	return c
}

// together runs the changes of a piece on all cores.
func (e *cpuEngine[K, SK, V, SV]) together(b *batch.Batch) (failed []uint32, ok bool) {
	c := e.changer(b)
	shares := e.Dealer.Out(e.Device, c.table.buckets, b.N, func(lo, hi int, places []uint32) {
		for i, k := range c.Keys[lo:hi] {
			places[i] = bucketOf(c.table.geometry, SK(k))
		}
	})
	if !e.quick(c, shares) {
		return nil, false
	}
	full := make([][]uint32, len(shares))
	var fresh, live atomic.Int64
	e.Device.Parallel(len(shares), 1, func(i, _ int) {
		own := *c
		own.units = c.table.units.Worker()
		own.run(cpu.NoWatch(), shares[i].Ops)
		full[i] = own.Failed
		fresh.Add(own.Fresh)
		live.Add(own.Live)
	})
	c.Fresh, c.Live = fresh.Load(), live.Load()
	c.count()
	return cpu.Merged(full), true
}

// quick reports whether no core will be long at its share of a piece, which
// cannot be stopped: searches are short, and no bucket gets much longer.
func (e *cpuEngine[K, SK, V, SV]) quick(c *changer[K, SK, V, SV], shares []cpu.Share) bool {
	if c.Appends() {
		return true // all begin where the hint says
	}
	for _, s := range shares {
		if len(s.Ops) > len(c.Keys)/len(shares)+crowd {
			return false
		}
	}
	if !c.gen.long.Load() {
		return true
	}
	var work atomic.Int64
	e.Device.Parallel(len(c.Keys), len(c.Keys)/e.Device.Properties().Units+1, func(lo, hi int) {
		n := 0
		for _, k := range c.Keys[lo:hi] {
			n += c.table.length(c.table.base(bucketOf(c.table.geometry, SK(k))))
		}
		work.Add(int64(n))
	})
	return work.Load() <= longWork
}

// run runs operations in order until the watch stops it.
func (c *changer[K, SK, V, SV]) run(w *cpu.Watch, ops []uint32) (ran int) {
	slow := !c.Appends()
	return cpu.Ahead(w, ops, group, func(ops []uint32, bases *[cpu.Group]unsafe.Pointer) {
		for j, i := range ops {
			bases[j] = c.table.base(bucketOf(c.table.geometry, SK(c.Keys[i])))
		}
		cpu.PrefetchPairs(bases[:len(ops)])
	}, func(i uint32, base unsafe.Pointer) {
		if slow && c.gen.long.Load() {
			w.Work(c.table.length(base))
		}
		c.Finish(i, c.one(i, c.Kind(i), cpu.Stored(SK(c.Keys[i]), lastSentinel), base))
	})
}

// one runs one operation.
func (c *changer[K, SK, V, SV]) one(i uint32, kind op.Kind, key SK, base unsafe.Pointer) cpu.Outcome {
	if c.Multi {
		switch kind {
		case op.Put:
			return c.add(i, key, base)
		case op.DeleteAll:
			n := c.table.killAll(base, key)
			c.Live -= int64(n)
			return cpu.Outcome{OK: n > 0, Removed: n}
		}
	}
	if s := c.table.find(base, key); s != nil {
		return cpu.Present(&c.Changes, i, kind, s)
	}
	if kind.Inserts() {
		return c.insert(i, key, base)
	}
	return cpu.Outcome{}
}

// insert runs a Put or PutNew whose key is absent. In a map a dead slot will
// do, but among deletes only the key's own.
func (c *changer[K, SK, V, SV]) insert(i uint32, key SK, base unsafe.Pointer) cpu.Outcome {
	if c.dead && !c.Multi {
		at, own := c.table.tombstones(base, key)
		if !c.Reuse {
			at = own
		}
		if at != nil {
			return cpu.Insert(&c.Changes, i, key, at)
		}
	}
	return c.add(i, key, base)
}

// add puts operation i's pair at the end of its bucket, if there is room.
func (c *changer[K, SK, V, SV]) add(i uint32, key SK, base unsafe.Pointer) cpu.Outcome {
	at := c.table.end(base, &c.units)
	if at == nil {
		return cpu.Outcome{Full: true}
	}
	return cpu.Insert(&c.Changes, i, key, at)
}

// count adds what was done to the table's counters.
func (c *changer[K, SK, V, SV]) count() {
	to := c.gen.Tally()
	to.Live += uint64(c.Live)
	to.Used += uint64(c.Fresh)
}
