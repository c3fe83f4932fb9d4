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

// Change implements core.Engine.
func (e *cpuEngine[K, SK, V, SV]) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	size := cpu.PieceOps
	if g := e.Parts().(*generation); g.long.Load() || g.buckets < cpu.SmallPiece {
		size = cpu.SmallPiece // chains are long or may become long
	}
	return e.Engine.Change(ctx, s, b, size, func(part *batch.Batch) cpu.Loops { return e.changer(part) })
}

// longWork is the maximum number of slabs that the searches of a quick piece read. Reading them
// takes one core ten milliseconds. See [changer.Quick].
const longWork = 1 << 17

// changer runs the changes of one piece of a batch, or of a share of the piece.
type changer[K, SK cpu.Key, V, SV cpu.Val] struct {
	cpu.Changes[K, V]
	dev         device.Host
	gen         *generation
	table       cpuTable[SK, SV]
	units       alloc.Worker
	mayHaveDead bool // whether the table may have dead slots
	// whether all operations begin at their bucket's tail hint (link.tail), without a search
	appends bool
}

func (e *cpuEngine[K, SK, V, SV]) changer(b *batch.Batch) *changer[K, SK, V, SV] {
	g := e.Parts().(*generation)
	now := g.Tally()
	c := &changer[K, SK, V, SV]{
		Changes:     cpu.ChangesOf[K, V](b),
		dev:         e.Device,
		gen:         g,
		table:       tableOf[SK, SV](g),
		mayHaveDead: now.Used > now.Live || b.Columns[batch.Kinds].Given(),
		appends:     b.Appends(),
	}
	if g.dict != nil { // a graph reuses dead slots only with batch.Reuse
		c.ReuseDead = b.Flags&batch.Reuse != 0
	}
	return c
}

// Locate implements cpu.Loops. It writes the buckets of the operations.
func (c *changer[K, SK, V, SV]) Locate(lo, hi int, buckets []uint32) {
	for i, k := range c.Keys[lo:hi] {
		buckets[i] = locate(&c.table, k)
	}
}

// Quick implements cpu.Loops. If the table has long chains, it compares the total length of the
// chains of all operations with longWork.
func (c *changer[K, SK, V, SV]) Quick() bool {
	if c.appends || !c.gen.long.Load() {
		return true
	}
	var work atomic.Int64
	c.dev.Parallel(len(c.Keys), len(c.Keys)/c.dev.Properties().Units+1, func(lo, hi int) {
		n := 0
		for _, k := range c.Keys[lo:hi] {
			n += c.table.chainLength(c.table.base(locate(&c.table, k)))
		}
		work.Add(int64(n))
	})
	return work.Load() <= longWork
}

// Run implements cpu.Loops.
func (piece *changer[K, SK, V, SV]) Run(w *cpu.Watch, s cpu.Share) (ran int, r cpu.Result) {
	c := *piece // to collect a separate result
	c.units = c.table.units.Worker()
	ran = cpu.RunPrefetched(w, s.Ops, group, func(ops []uint32, bases *[cpu.Group]unsafe.Pointer) {
		for j, i := range ops {
			bases[j] = c.table.base(locate(&c.table, c.Keys[i]))
		}
		cpu.PrefetchPairs(bases[:len(ops)])
	}, func(i uint32, base unsafe.Pointer) {
		if !c.appends && c.gen.long.Load() {
			w.AddWork(c.table.chainLength(base))
		}
		before := c.Live
		c.WriteOutcome(i, c.runOp(i, c.Kind(i), cpu.Stored(SK(c.Keys[i]), lastSentinel), base))
		countArc(&c.table, c.Keys[i], c.Live-before)
	})
	return ran, c.Result
}

func (c *changer[K, SK, V, SV]) runOp(i uint32, kind op.Kind, key SK, base unsafe.Pointer) cpu.Outcome {
	if c.Multi {
		switch kind {
		case op.Put:
			return c.add(i, key, base)
		case op.DeleteAll:
			n := c.table.deleteAll(base, key)
			c.Live -= int64(n)
			return cpu.Outcome{OK: n > 0, Removed: n}
		}
	}
	if s := c.table.find(base, key); s != nil {
		return cpu.ApplyPresent(&c.Changes, i, kind, s)
	}
	if kind.Inserts() {
		return c.insert(i, key, base)
	}
	return cpu.Outcome{}
}

// insert runs a Put or PutNew of an absent key. A map may reuse any dead slot. In a batch with
// deletions, it may only reuse a dead slot that remembers the same key.
func (c *changer[K, SK, V, SV]) insert(i uint32, key SK, base unsafe.Pointer) cpu.Outcome {
	if c.mayHaveDead && !c.Multi {
		at, ownDead := c.table.tombstones(base, key)
		if !c.ReuseDead {
			at = ownDead
		}
		if at != nil {
			return cpu.Insert(&c.Changes, i, key, at)
		}
	}
	return c.add(i, key, base)
}

// add appends the pair of operation i to its bucket. The operation overflows if no slot is free.
func (c *changer[K, SK, V, SV]) add(i uint32, key SK, base unsafe.Pointer) cpu.Outcome {
	at := c.table.appendSlot(base, &c.units)
	if at == nil {
		return cpu.Outcome{Overflowed: true}
	}
	return cpu.Insert(&c.Changes, i, key, at)
}
