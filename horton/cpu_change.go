package horton

import (
	"context"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
)

// Change implements [core.Engine]. While user code iterates, no key moves.
func (e *cpuEngine[K, SK, V, SV]) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	g, still := e.generation(), e.Leases.Held()
	traces := allTraces{listed: e.eager && !still}
	t := tableOf[SK, SV](g)
	done, failed, err = e.Engine.Change(ctx, s, b, cpu.PieceOps, func(part *batch.Batch) cpu.Loops {
		return &changer[K, SK, V, SV]{Changes: cpu.ChangesOf[K, V](part), gen: g, table: t, still: still, inserts: part.Inserts(), all: &traces}
	})
	if traces.listed {
		g.Tally().Used += uint64(reclaimAll(&t, traces.buckets))
	} else {
		g.deleted.Add(traces.deleted)
	}
	return done, failed, err
}

// traces is what deletes leave to be reclaimed.
type traces struct {
	deleted uint64
	buckets []uint32 // of deleted keys: their primary ones, and those that held them
}

// allTraces holds the traces of a batch.
type allTraces struct {
	mu     sync.Mutex
	listed bool // with buckets
	traces
}

func (t *allTraces) add(more traces) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deleted += more.deleted
	t.buckets = append(t.buckets, more.buckets...)
}

// changer runs the changes of one piece of a batch, or a share of them.
type changer[K, SK cpu.Key, V, SV cpu.Val] struct {
	cpu.Changes[K, V]
	gen     *generation
	table   cpuTable[SK, SV]
	part    cpu.Share
	still   bool // keys stay where they are
	inserts bool
	search  cpu.Search
	all     *allTraces
	own     traces
	put     *putOff // nil: this core has the table to itself
}

// putOff marks the buckets of deferred operations, and others with the same bit.
type putOff [1 << 10]uint64

func (p *putOff) bit(bucket uint32) (word *uint64, mask uint64) {
	return &p[bucket/64%uint32(len(p))], 1 << (bucket % 64)
}

// Quick implements [cpu.Loops]. Only insertions search for a slot.
func (c *changer[K, SK, V, SV]) Quick() bool { return !c.inserts || !c.gen.long.Load() }

// Places implements [cpu.Loops]. It stores the lines in which the primary buckets of operations
// begin.
func (c *changer[K, SK, V, SV]) Places(lo, hi int, lines []uint32) {
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
	c := *piece // with a result of its own
	c.part, c.search = s, cpu.SearchBy(w)
	if whole := s.Lo == 0 && s.Hi > c.table.lines; !whole {
		c.put = new(putOff)
	}
	m := mover[SK, SV]{cpuTable: &c.table, still: c.still}
	ran = cpu.Ahead(w, s.Ops, cpu.Group/2, c.ask, func(i uint32, p path[SK]) { w.Work(c.one(&m, i, p)) })
	c.Fresh += m.fresh
	c.all.add(c.own)
	return ran, c.Result
}

// ask computes the paths of operations and prefetches their primary buckets.
func (c *changer[K, SK, V, SV]) ask(ops []uint32, paths *[cpu.Group]path[SK]) {
	var buffer [mostPieces * cpu.Group]uint32
	pieces := buffer[:0]
	for j, i := range ops {
		paths[j] = pathOf[SK, SV](c.table.geometry, SK(c.Keys[i]))
		pieces = c.table.pieces(pieces, paths[j].bucket, c.table.shift)
	}
	cpu.Prefetch(c.table.base, pieces, pieceShift)
}

// spot is the result of a search for a key and for a slot for it.
type spot[K cpu.Key, V cpu.Val] struct {
	key  K               // stored form of the key
	live *cpu.Slot[K, V] // the key's slot, if it is there
	free *cpu.Slot[K, V] // where it may go without a search
	late bool            // the search leaves the share
}

// one runs one operation and returns its work beyond the primary bucket.
func (c *changer[K, SK, V, SV]) one(m *mover[SK, SV], i uint32, p path[SK]) (work int) {
	kind, s := c.Kind(i), c.look(p)
	adds, before := kind.Inserts() && s.live == nil, c.Live
	if adds && s.free == nil && !s.late {
		if s.late = c.put != nil; !s.late {
			s.free, work = c.room(m, p)
		}
	}
	var o cpu.Outcome
	switch {
	case s.late:
		word, mask := c.put.bit(p.bucket)
		*word |= mask
		c.Late = append(c.Late, i)
		return 1
	case s.live != nil:
		o = cpu.Present(&c.Changes, i, kind, s.live)
	case adds && s.free != nil:
		o = cpu.Insert(&c.Changes, i, s.key, s.free)
	case adds:
		o.Full = true
	}
	c.Finish(i, o)
	if c.Live < before {
		c.trace(p, s.live)
	}
	return work
}

// trace records a deleted key and the slot that held it.
func (c *changer[K, SK, V, SV]) trace(p path[SK], s *cpu.Slot[SK, SV]) {
	c.own.deleted++
	if c.all.listed && !isSentinel(p.key) {
		c.own.buckets = append(c.own.buckets, p.bucket)
		if at := c.table.number(s) >> c.table.shift; at != p.bucket {
			c.own.buckets = append(c.own.buckets, at)
		}
	}
}

// look searches the buckets of a key, as far as they lie in a share.
func (c *changer[K, SK, V, SV]) look(p path[SK]) (s spot[SK, SV]) {
	if s.key = p.key; isSentinel(p.key) {
		s.key, s.free = SK(p.own()), c.table.own(p)
		if !isSentinel(s.free.Key) {
			s.live = s.free
		}
		return s
	}
	if s.late = !c.mine(p.bucket); s.late {
		return s
	}
	slots := c.table.bucket(p.bucket)
	if s.live = find(slots, p.key); s.live != nil {
		return s
	}
	if b, any := c.table.beyond(slots, p); any {
		if s.late = c.put != nil; s.late {
			return s
		}
		if s.live = find(c.table.second(b), p.key); s.live != nil {
			return s
		}
	}
	s.free = freeSlot(slots)
	return s
}

// mine reports whether this core may work on a primary bucket: the bucket lies in its share, and no
// earlier operation on it is deferred.
func (c *changer[K, SK, V, SV]) mine(bucket uint32) bool {
	if c.put == nil {
		return true
	}
	word, mask := c.put.bit(bucket)
	return *word&mask == 0 && c.table.lastLine(bucket) < c.part.Hi && c.table.firstLine(bucket) >= c.part.Lo
}

// room frees a slot for a key if its primary bucket is full.
func (c *changer[K, SK, V, SV]) room(m *mover[SK, SV], p path[SK]) (free *cpu.Slot[SK, SV], tried int) {
	m.tried, m.still = 0, c.still || !c.part.Adds(&c.Result) || !c.search.Pays()
	free = m.makeRoom(p)
	if !m.still {
		c.search.Found(free != nil)
	}
	if m.tried > longSearch || c.search.Exhausted() {
		c.gen.long.Store(true)
	}
	return free, m.tried
}
