package cuckoo

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
)

// Change implements [core.Engine]. While a lease is held, as in an iteration, no key moves.
func (e *cpuEngine[K, SK, V, SV]) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	pinned := e.Leases.Held()
	return e.Engine.Change(ctx, s, b, cpu.PieceOps, func(part *batch.Batch) cpu.Loops {
		g := e.Parts().(*generation)
		return &changer[K, SK, V, SV]{Changes: cpu.ChangesOf[K, V](part), gen: g, table: tableOf[SK, SV](g, e.mode), pinned: pinned, inserts: part.Inserts()}
	})
}

// changer runs the changes of one piece of a batch, or of one core's share of the piece.
type changer[K, SK cpu.Key, V, SV cpu.Val] struct {
	cpu.Changes[K, V]
	gen     *generation
	table   cpuTable[SK, SV]
	part    cpu.Share
	pinned  bool // keys must not move
	inserts bool
	search  cpu.SearchLimit

	// deferredKeys has the keys of operations that were deferred because they found no slot. Mixed
	// batches use it, since later operations may free a slot or read the key.
	deferredKeys map[SK]struct{}
}

// Quick implements [cpu.Loops]. Only insertions may search for a slot for long.
func (c *changer[K, SK, V, SV]) Quick() bool { return !c.inserts || !c.gen.long.Load() }

// Locate implements [cpu.Loops]. It stores the first line of each operation's first bucket.
func (c *changer[K, SK, V, SV]) Locate(lo, hi int, lines []uint32) {
	for i, k := range c.Keys[lo:hi] {
		if key := SK(k); isSentinel(key) {
			lines[i] = c.table.lines
		} else {
			lines[i] = c.table.firstLine(pathOf(c.table.geometry, key).first)
		}
	}
}

// Run implements [cpu.Loops].
func (piece *changer[K, SK, V, SV]) Run(w *cpu.Watch, s cpu.Share) (ran int, r cpu.Result) {
	c := *piece // a copy with its own result
	c.part, c.search = s, cpu.NewSearchLimit(w)
	ran = cpu.RunPrefetched(w, s.Ops, cpu.Group, c.prefetchPaths, func(i uint32, p path) { w.AddWork(c.runOp(i, p)) })
	return ran, c.Result
}

func (c *changer[K, SK, V, SV]) prefetchPaths(ops []uint32, paths *[cpu.Group]path) {
	var pieces [cpu.Group]uint32
	for j, i := range ops {
		paths[j] = pathOf(c.table.geometry, SK(c.Keys[i]))
		pieces[j] = c.table.piece(paths[j].first)
	}
	cpu.Prefetch(c.table.base, pieces[:len(ops)], pieceShift)
}

// runOp runs one operation. It returns the number of keys that it tried to move, or 1 if it defers
// the operation.
func (c *changer[K, SK, V, SV]) runOp(i uint32, p path) (work int) {
	kind, key := c.Kind(i), SK(c.Keys[i])
	var s searchResult[SK, SV]
	if isSentinel(key) {
		key = ^key
		if s.free = c.table.sentinelSlot(key); s.free.Key == key {
			s.live = s.free
		}
	} else if s = c.table.search(c.part, p, key); s.leavesShare || c.isDeferred(key) {
		c.Deferred = append(c.Deferred, i)
		return 1
	}
	adds := kind.Inserts()
	if adds && s.live == nil && s.free == nil {
		if !c.hasWholeTable() {
			c.deferOp(i, key)
			return 1
		}
		s.free, work = c.makeSlot(p)
	}
	var o cpu.Outcome
	switch {
	case s.live != nil:
		o = cpu.ApplyPresent(&c.Changes, i, kind, s.live)
	case adds && s.free != nil:
		o = cpu.Insert(&c.Changes, i, key, s.free)
	case adds:
		o.Overflowed = true
	}
	c.WriteOutcome(i, o)
	return work
}

// deferOp defers an operation until one core has the whole table.
func (c *changer[K, SK, V, SV]) deferOp(i uint32, key SK) {
	c.Deferred = append(c.Deferred, i)
	if c.Mixed() {
		if c.deferredKeys == nil {
			c.deferredKeys = map[SK]struct{}{}
		}
		c.deferredKeys[key] = struct{}{}
	}
}

func (c *changer[K, SK, V, SV]) isDeferred(key SK) (yes bool) {
	if len(c.deferredKeys) > 0 {
		_, yes = c.deferredKeys[key]
	}
	return yes
}

func (c *changer[K, SK, V, SV]) hasWholeTable() bool {
	return c.part.Lo == 0 && c.part.Hi >= c.table.Units()
}

// makeSlot frees a slot by moving keys, or takes a slot of the stash. It returns nil if it finds
// none. tried is the number of keys that it tried to move.
func (c *changer[K, SK, V, SV]) makeSlot(p path) (free *cpu.Slot[SK, SV], tried int) {
	if !c.pinned && c.part.CanAdd(&c.Result) && c.search.Allowed() {
		var usedEmpty bool
		if free, tried, usedEmpty = c.table.evict(p); usedEmpty {
			c.Used++
		}
		if c.search.Record(free != nil); tried > longSearch || c.search.Exhausted() {
			c.gen.long.Store(true)
		}
	}
	if free == nil {
		free = c.table.freeStashSlot(p)
	}
	return free, tried
}
