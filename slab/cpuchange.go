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
	size := cpu.PieceOps
	if g := e.Parts().(*generation); g.long.Load() || g.buckets < cpu.SmallPiece {
		size = cpu.SmallPiece // chains are long or may become so
	}
	return e.Engine.Change(ctx, s, b, size, func(part *batch.Batch) cpu.Loops { return e.changer(part) })
}

// longWork is how many slabs the searches of a piece go through at most if all
// cores work on it: ten milliseconds' work of one core.
const longWork = 1 << 17

// changer runs the changes of one piece of a batch, or a share of them.
type changer[K, SK cpu.Key, V, SV cpu.Val] struct {
	cpu.Changes[K, V]
	dev     device.Host
	gen     *generation
	table   cpuTable[SK, SV]
	units   alloc.Worker
	dead    bool // there may be dead slots
	appends bool // no operation searches: all begin where the hint says
}

func (e *cpuEngine[K, SK, V, SV]) changer(b *batch.Batch) *changer[K, SK, V, SV] {
	g := e.Parts().(*generation)
	now := g.Tally()
	c := &changer[K, SK, V, SV]{
		Changes: cpu.ChangesOf[K, V](b),
		dev:     e.Device,
		gen:     g,
		table:   tableOf[SK, SV](g),
		dead:    now.Used > now.Live || b.Columns[batch.Kinds].Given(),
		appends: b.Appends(),
	}
	if g.dict != nil { // sets, too, keep their tombstones unless they are told otherwise
		c.Reuse = b.Flags&batch.Reuse != 0
	}
	return c
}

// Places is for [cpu.Loops]: the buckets of operations.
func (c *changer[K, SK, V, SV]) Places(lo, hi int, buckets []uint32) {
	for i, k := range c.Keys[lo:hi] {
		buckets[i] = locate(&c.table, k)
	}
}

// Quick is for [cpu.Loops]: where chains are long, it adds up those of all
// operations.
func (c *changer[K, SK, V, SV]) Quick() bool {
	if c.appends || !c.gen.long.Load() {
		return true
	}
	var work atomic.Int64
	c.dev.Parallel(len(c.Keys), len(c.Keys)/c.dev.Properties().Units+1, func(lo, hi int) {
		n := 0
		for _, k := range c.Keys[lo:hi] {
			n += c.table.length(c.table.base(locate(&c.table, k)))
		}
		work.Add(int64(n))
	})
	return work.Load() <= longWork
}

// Run is for [cpu.Loops].
func (piece *changer[K, SK, V, SV]) Run(w *cpu.Watch, s cpu.Share) (ran int, r cpu.Result) {
	c := *piece // with a result of its own
	c.units = c.table.units.Worker()
	ran = cpu.Ahead(w, s.Ops, group, func(ops []uint32, bases *[cpu.Group]unsafe.Pointer) {
		for j, i := range ops {
			bases[j] = c.table.base(locate(&c.table, c.Keys[i]))
		}
		cpu.PrefetchPairs(bases[:len(ops)])
	}, func(i uint32, base unsafe.Pointer) {
		if !c.appends && c.gen.long.Load() {
			w.Work(c.table.length(base))
		}
		before := c.Live
		c.Finish(i, c.one(i, c.Kind(i), cpu.Stored(SK(c.Keys[i]), lastSentinel), base))
		countArc(&c.table, c.Keys[i], c.Live-before)
	})
	return ran, c.Result
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
