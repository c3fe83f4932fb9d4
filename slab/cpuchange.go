package slab

import (
	"context"
	"sync/atomic"
	"unsafe"

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
	return e.Pieces(ctx, b, func(part *batch.Batch) []uint32 {
		c := e.changer(part)
		c.run(e.Dealer.All(part.N))
		c.count()
		return c.Failed
	}, e.together)
}

// changer runs the changes of one piece of a batch, or a share of them.
type changer[K, SK cpu.Key, V, SV cpu.Val] struct {
	cpu.Changes[K, V]
	gen   *generation
	table cpuTable[SK, SV]
	units resident
	dead  bool // there may be dead slots
}

func (e *cpuEngine[K, SK, V, SV]) changer(b *batch.Batch) *changer[K, SK, V, SV] {
	g := e.Memory().(*generation)
	now := g.Counters()
	return &changer[K, SK, V, SV]{
		Changes: cpu.ChangesOf[K, V](b),
		gen:     g,
		table:   tableOf[SK, SV](g),
		units:   cpuAllocOf(g).resident(g.pool.Ref()),
		dead:    now.Used > now.Live || b.Columns[batch.Kinds].Given(),
	}
}

// together runs the changes of a piece on all cores.
func (e *cpuEngine[K, SK, V, SV]) together(b *batch.Batch) []uint32 {
	c := e.changer(b)
	shares := e.Dealer.Out(e.Device, c.table.buckets, b.N, func(lo, hi int, places []uint32) {
		for i, k := range c.Keys[lo:hi] {
			places[i] = bucketOf(c.table.geometry, SK(k))
		}
	})
	failed := make([][]uint32, len(shares))
	var fresh, live atomic.Int64
	e.Device.Parallel(len(shares), 1, func(i, _ int) {
		own := *c
		own.units = cpuAllocOf(c.gen).resident(c.units.ref)
		own.run(shares[i].Ops)
		failed[i] = own.Failed
		fresh.Add(own.Fresh)
		live.Add(own.Live)
	})
	c.Fresh, c.Live = fresh.Load(), live.Load()
	c.count()
	return cpu.Merged(failed)
}

// run runs operations in order.
func (c *changer[K, SK, V, SV]) run(ops []uint32) {
	cpu.Ahead(ops, group, func(ops []uint32, bases *[cpu.Group]unsafe.Pointer) {
		for j, i := range ops {
			bases[j] = c.table.base(bucketOf(c.table.geometry, SK(c.Keys[i])))
		}
		cpu.PrefetchPairs(bases[:len(ops)])
	}, func(i uint32, base unsafe.Pointer) {
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
	to := c.gen.Counters()
	to.Live += uint64(c.Live)
	to.Used += uint64(c.Fresh)
}
