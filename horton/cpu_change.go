package horton

import (
	"context"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
)

// Change implements [core.Engine]. While a lease is held, as in an iteration, no key moves.
func (e *cpuEngine[K, SK, V, SV]) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	g, pinned := e.generation(), e.Leases.Held()
	traces := batchTraces{listed: e.eager && !pinned}
	t := tableOf[SK, SV](g)
	done, failed, err = e.Engine.Change(ctx, s, b, cpu.PieceOps, func(part *batch.Batch) cpu.Loops {
		return &changer[K, SK, V, SV]{Changes: cpu.ChangesOf[K, V](part), gen: g, table: t, pinned: pinned, inserts: part.Inserts(), all: &traces}
	})
	if traces.listed {
		g.Tally().Used += uint64(reclaimAll(&t, traces.buckets))
	} else {
		g.deleted.Add(traces.deleted)
	}
	return done, failed, err
}

// deleteTrace records the deletes of a batch for reclaiming, which later visits their buckets.
type deleteTrace struct {
	deleted uint64
	buckets []uint32 // buckets that had deleted keys, and the primary buckets of these keys
}

// batchTraces collects the delete traces of a batch.
type batchTraces struct {
	mu     sync.Mutex
	listed bool // buckets are recorded
	deleteTrace
}

func (t *batchTraces) add(d deleteTrace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deleted += d.deleted
	t.buckets = append(t.buckets, d.buckets...)
}

// changer runs the changes of one piece of a batch, or of one core's share of the piece.
type changer[K, SK cpu.Key, V, SV cpu.Val] struct {
	cpu.Changes[K, V]
	gen      *generation
	table    cpuTable[SK, SV]
	part     cpu.Share
	pinned   bool // keys must not move
	inserts  bool
	search   cpu.SearchLimit
	all      *batchTraces
	traces   deleteTrace
	deferred *bucketFilter // nil if this core has the table to itself
}

// bucketFilter marks the buckets of deferred operations. Buckets may share a bit, so an unmarked
// operation may be deferred too.
type bucketFilter [1 << 10]uint64

func (p *bucketFilter) bit(bucket uint32) (word *uint64, mask uint64) {
	return &p[bucket/64%uint32(len(p))], 1 << (bucket % 64)
}

// Quick implements [cpu.Loops]. Only insertions may search for a slot for long.
func (c *changer[K, SK, V, SV]) Quick() bool { return !c.inserts || !c.gen.long.Load() }

// Locate implements [cpu.Loops]. It stores the first line of each operation's primary bucket.
func (c *changer[K, SK, V, SV]) Locate(lo, hi int, lines []uint32) {
	for i, k := range c.Keys[lo:hi] {
		if p := pathOf[SK, SV](c.table.geometry, SK(k)); isSentinel(p.key) {
			lines[i] = c.table.lines
		} else {
			lines[i] = c.table.firstLine(p.bucket)
		}
	}
}

// Run implements [cpu.Loops].
func (piece *changer[K, SK, V, SV]) Run(w *cpu.Watch, s cpu.Share) (ran int, r cpu.Result) {
	c := *piece // a copy with its own result
	c.part, c.search = s, cpu.NewSearchLimit(w)
	if whole := s.Lo == 0 && s.Hi > c.table.lines; !whole {
		c.deferred = new(bucketFilter)
	}
	m := mover[SK, SV]{cpuTable: &c.table, pinned: c.pinned}
	ran = cpu.RunPrefetched(w, s.Ops, cpu.Group/2, c.prefetchPaths, func(i uint32, p path[SK]) { w.AddWork(c.runOp(&m, i, p)) })
	c.Used += m.used
	c.all.add(c.traces)
	return ran, c.Result
}

func (c *changer[K, SK, V, SV]) prefetchPaths(ops []uint32, paths *[cpu.Group]path[SK]) {
	var buffer [maxPieces * cpu.Group]uint32
	pieces := buffer[:0]
	for j, i := range ops {
		paths[j] = pathOf[SK, SV](c.table.geometry, SK(c.Keys[i]))
		pieces = c.table.pieces(pieces, paths[j].bucket, c.table.shift)
	}
	cpu.Prefetch(c.table.base, pieces, pieceShift)
}

// searchResult is the result of a search for a key and for a free slot.
type searchResult[K cpu.Key, V cpu.Val] struct {
	key        K               // stored form of the key
	live       *cpu.Slot[K, V] // slot of the key; nil if absent
	free       *cpu.Slot[K, V] // free slot for the key; nil if none is known
	isDeferred bool            // the operation must be deferred
}

// runOp runs one operation. It returns the number of keys that it tried to move, or 1 if it defers
// the operation.
func (c *changer[K, SK, V, SV]) runOp(m *mover[SK, SV], i uint32, p path[SK]) (work int) {
	kind, s := c.Kind(i), c.lookUp(p)
	adds, before := kind.Inserts() && s.live == nil, c.Live
	if adds && s.free == nil && !s.isDeferred {
		if s.isDeferred = c.deferred != nil; !s.isDeferred {
			s.free, work = c.makeSlot(m, p)
		}
	}
	var o cpu.Outcome
	switch {
	case s.isDeferred:
		word, mask := c.deferred.bit(p.bucket)
		*word |= mask
		c.Deferred = append(c.Deferred, i)
		return 1
	case s.live != nil:
		o = cpu.ApplyPresent(&c.Changes, i, kind, s.live)
	case adds && s.free != nil:
		o = cpu.Insert(&c.Changes, i, s.key, s.free)
	case adds:
		o.Overflowed = true
	}
	c.WriteOutcome(i, o)
	if c.Live < before {
		c.recordDelete(p, s.live)
	}
	return work
}

// recordDelete records the deletion of a key from slot s.
func (c *changer[K, SK, V, SV]) recordDelete(p path[SK], s *cpu.Slot[SK, SV]) {
	c.traces.deleted++
	if c.all.listed && !isSentinel(p.key) {
		c.traces.buckets = append(c.traces.buckets, p.bucket)
		if at := c.table.number(s) >> c.table.shift; at != p.bucket {
			c.traces.buckets = append(c.traces.buckets, at)
		}
	}
}

// lookUp searches the buckets of a key. If a bucket lies outside this core's share, it sets
// isDeferred in the result.
func (c *changer[K, SK, V, SV]) lookUp(p path[SK]) (s searchResult[SK, SV]) {
	if s.key = p.key; isSentinel(p.key) {
		s.key, s.free = SK(p.sentinelIndex()), c.table.sentinelSlot(p)
		if !isSentinel(s.free.Key) {
			s.live = s.free
		}
		return s
	}
	if s.isDeferred = !c.isAvailable(p.bucket); s.isDeferred {
		return s
	}
	slots := c.table.bucket(p.bucket)
	if s.live = find(slots, p.key); s.live != nil {
		return s
	}
	if b, ok := c.table.remappedBucket(slots, p); ok {
		if s.isDeferred = c.deferred != nil; s.isDeferred {
			return s
		}
		if s.live = find(c.table.secondaryBucket(b), p.key); s.live != nil {
			return s
		}
	}
	s.free = freeSlot(slots)
	return s
}

// isAvailable reports whether this core may work on a primary bucket. The bucket must lie in its
// share, and no earlier operation on it may be deferred.
func (c *changer[K, SK, V, SV]) isAvailable(bucket uint32) bool {
	if c.deferred == nil {
		return true
	}
	word, mask := c.deferred.bit(bucket)
	return *word&mask == 0 && c.table.lastLine(bucket) < c.part.Hi && c.table.firstLine(bucket) >= c.part.Lo
}

// makeSlot frees a slot for a key whose primary bucket is full. It returns nil if it finds none.
// tried is the number of keys that it tried to move.
func (c *changer[K, SK, V, SV]) makeSlot(m *mover[SK, SV], p path[SK]) (free *cpu.Slot[SK, SV], tried int) {
	m.tried, m.pinned = 0, c.pinned || !c.part.CanAdd(&c.Result) || !c.search.Allowed()
	free = m.makeSlot(p)
	if !m.pinned {
		c.search.Record(free != nil)
	}
	if m.tried > longSearch || c.search.Exhausted() {
		c.gen.long.Store(true)
	}
	return free, m.tried
}
