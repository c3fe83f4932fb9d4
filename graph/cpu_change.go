package graph

import (
	"context"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// cpuChange is a running batch of arcs, sorted by both ends. The arcs from one vertex form a
// segment. Within it the arcs of one edge are adjacent, in batch order.
type cpuChange struct {
	*cpuEngine
	items    []cpu.Item[uint64]
	bits     int // number of bits of a vertex in a key
	vertices int // number of records after the change

	kind     op.Kind
	kinds    []op.Kind // nil if all operations are of the same kind
	ok       []bool    // results of the batch; may be nil
	weights  weights
	arcShift uint32 // log2 of the arcs per operation: 0 or 1

	// nets has an element per item. The last arc of each edge stores the effect of the batch on the
	// edge. In a multigraph each arc that adds an edge stores an effect, and so does the last that
	// removes edges.
	nets     []net
	segments []segment
	changed  atomic.Uint64
	arcs     atomic.Int64 // change in the number of arcs
	loops    atomic.Int64
}

// net is the effect of a batch on one edge.
type net uint8

const (
	netNone net = iota
	netAdd
	netUpdate
	netRemove
)

// segment is the effect of a batch on one vertex.
type segment struct {
	vertex     uint32
	first, end int // range of items
	degree     int // degree after the change
	class      uint32
	block      uint32
	oldBlock   retiredBlock // previous block of the vertex
}

// change implements engine.
func (e *cpuEngine) change(ctx context.Context, _ *device.Stream, b *batch.Batch) (uint64, error) {
	c := &cpuChange{
		cpuEngine: e, kind: b.Kind, kinds: batch.View[op.Kind](b.Columns[batch.Kinds].Host),
		ok: batch.View[bool](b.Columns[batch.OK].Host), weights: weights{e.weight, b.Columns[batch.Vals].Host}, arcShift: uint32(e.arcsPerEdge() - 1),
	}
	keys := c.keys(b)
	var err error
	if c.items, err = e.sort(ctx, keys); err != nil {
		return 0, err
	}
	err = c.run(ctx)
	e.sorter.Trim()
	return c.changed.Load(), err
}

func (c *cpuChange) kindOf(operation uint32) op.Kind {
	if c.kinds == nil {
		return c.kind
	}
	return c.kinds[operation]
}

// keys returns the arcs of a batch as sort keys. Arcs that belong in no row get the largest key.
func (c *cpuChange) keys(b *batch.Batch) []uint64 {
	from, to := batch.View[uint32](b.Columns[batch.Keys].Host), batch.View[uint32](b.Columns[batch.Keys2].Host)
	// one more than the largest vertex; maxPut counts only vertices that get records
	var maxEnd atomic.Uint32
	var maxPut atomic.Uint32
	c.host.Parallel(b.N, grain, func(lo, hi int) {
		all, put := uint32(0), uint32(0)
		for i := lo; i < hi; i++ {
			if c.outOfRange(from[i], to[i]) { // a deletion, which finds nothing
				continue
			}
			all = max(all, from[i]+1, to[i]+1)
			if c.kindOf(uint32(i)) == op.Put && (from[i] != to[i] || c.opts.SelfLoops) {
				put = max(put, from[i]+1, to[i]+1)
			}
		}
		storeMax(&maxEnd, all)
		storeMax(&maxPut, put)
	})
	c.bits = bits.Len32(maxEnd.Load())
	c.vertices = max(c.cpuEngine.vertices, int(maxPut.Load()))
	keys := make([]uint64, b.N<<c.arcShift)
	const dropped = ^uint64(0)
	c.host.Parallel(b.N, grain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			u, v := uint64(from[i]), uint64(to[i])
			arc, reverse := u<<c.bits|v, v<<c.bits|u
			if u == v {
				if reverse = dropped; !c.opts.SelfLoops {
					arc = dropped
				}
			}
			if c.outOfRange(from[i], to[i]) {
				arc, reverse = dropped, dropped
			}
			keys[i<<c.arcShift] = arc
			if c.arcShift != 0 {
				keys[2*i+1] = reverse
			}
		}
	})
	return keys
}

// storeMax sets n to the larger of its value and the given one.
func storeMax(n *atomic.Uint32, to uint32) {
	for old := n.Load(); old < to && !n.CompareAndSwap(old, to); old = n.Load() {
	}
}

// run changes the rows. Until it writes the records, it modifies nothing that readers use.
func (c *cpuChange) run(ctx context.Context) error {
	c.splitSegments()
	v := c.currentView()
	c.nets = make([]net, len(c.items))
	c.eachSegment(func(s *segment) { c.resolve(v, s) })
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.assignBlocks(); err != nil {
		return err
	}
	c.cpuEngine.vertices = c.vertices
	to := c.currentView()
	c.eachSegment(func(s *segment) { c.write(to, s) })
	c.releaseBlocks()
	c.store.arcs += uint64(c.arcs.Load())
	c.store.loops += uint64(c.loops.Load())
	return nil
}

func (c *cpuChange) eachSegment(f func(*segment)) {
	c.host.Parallel(len(c.segments), rowGrain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(&c.segments[i])
		}
	})
}

// splitSegments finds the segments. Dropped arcs have the largest key and belong to no segment.
// Their operations did nothing, so splitSegments sets their results to false.
func (c *cpuChange) splitSegments() {
	n, _ := slices.BinarySearchFunc(c.items, ^uint64(0), func(x cpu.Item[uint64], k uint64) int {
		if x.Key < k {
			return -1
		}
		return 0
	})
	for _, x := range c.items[n:] {
		if c.ok != nil && x.Row&c.arcShift == 0 {
			c.ok[x.Row>>c.arcShift] = false
		}
	}
	c.items = c.items[:n]
	parts := make([][]segment, (n+grain-1)/grain)
	c.host.Parallel(n, grain, func(lo, hi int) {
		var part []segment
		for i := lo; i < hi; i++ {
			u := c.items[i].Key >> c.bits
			if i == 0 || c.items[i-1].Key>>c.bits != u {
				part = append(part, segment{vertex: uint32(u), first: i})
			}
		}
		parts[lo/grain] = part
	})
	c.segments = slices.Concat(parts...)
	for i := range c.segments {
		c.segments[i].end = n
		if i+1 < len(c.segments) {
			c.segments[i].end = c.segments[i+1].first
		}
	}
}

// resolve computes the results of the operations on a vertex, the effect on each edge, and the new
// degree. In a multigraph an insertion always adds an edge, and a deletion removes all parallel
// ones.
func (c *cpuChange) resolve(v *view, s *segment) {
	r := v.row(s.vertex)
	changed, loops, at := uint64(0), 0, 0
	s.degree = len(r.ids)
	for i := s.first; i < s.end; {
		key := c.items[i].Key
		to := uint32(key & (1<<c.bits - 1))
		skip, existed := slices.BinarySearch(r.ids[at:], to)
		at += skip
		exists, first := existed, i
		for ; i < s.end && c.items[i].Key == key; i++ {
			operation := c.items[i].Row >> c.arcShift
			isPut := c.kindOf(operation) == op.Put
			if done := isPut != exists || isPut && c.opts.Multi; c.items[i].Row&c.arcShift == 0 {
				if c.ok != nil {
					c.ok[operation] = done
				}
				if done {
					changed++
				}
			}
			exists = isPut
		}
		delta := 0
		switch {
		case c.opts.Multi:
			delta = c.resolveParallel(first, i, upperBound(r.ids[at:], to))
		case exists && !existed:
			c.nets[i-1], delta = netAdd, 1
		case existed && !exists:
			c.nets[i-1], delta = netRemove, -1
		case exists && c.weight > 0:
			c.nets[i-1] = netUpdate
		}
		if s.degree += delta; to == s.vertex {
			loops += delta
		}
	}
	c.changed.Add(changed)
	c.arcs.Add(int64(s.degree - len(r.ids)))
	c.loops.Add(int64(loops))
	s.class = c.classOf(s.degree)
	if int(s.vertex) < v.vertices {
		words := v.words(s.vertex)
		s.oldBlock = retiredBlock{block: words[recordBlock], size: words[recordClass], born: words[recordBorn], died: c.epoch}
	}
}

// resolveParallel resolves the operations on parallel edges, which are the arcs first to end-1.
// existing is the number of these edges in the old row. It returns the change in that number.
func (c *cpuChange) resolveParallel(first, end, existing int) (delta int) {
	for i := end - 1; i >= first; i-- {
		if c.kindOf(c.items[i].Row>>c.arcShift) != op.Put {
			c.nets[i] = netRemove
			return delta - existing
		}
		c.nets[i] = netAdd
		delta++
	}
	return delta
}

// assignBlocks allocates a block for each new row that needs one.
func (c *cpuChange) assignBlocks() error {
	var needed [classes]int
	for i := range c.segments {
		needed[c.segments[i].class]++
	}
	needed[0] = 0
	from, units := c.blockSources(&needed)
	if err := c.reserve(units, c.vertices, zero); err != nil {
		return err
	}
	c.countAllocated(&needed, units)
	var ranks [classes]int
	for i := range c.segments {
		s := &c.segments[i]
		if s.class == 0 {
			continue
		}
		p, r := from[s.class], ranks[s.class]
		ranks[s.class]++
		if r < p.taken {
			s.block = c.stacks[s.class][p.top-1-r]
		} else {
			s.block = p.fresh(s.class, r)
		}
	}
	for class, p := range from {
		c.stacks[class] = c.stacks[class][:p.top-p.taken]
	}
	return nil
}

// write writes the new row of the vertex of s, followed by its record. v has the records.
func (c *cpuChange) write(v *view, s *segment) {
	if int(s.vertex) >= v.vertices {
		return // nothing is deleted from a vertex without a record
	}
	var aligned [recordWords / 2]uint64
	bytes := device.Bytes(aligned[:])
	record := batch.View[uint32](bytes)
	record[recordDegree], record[recordClass] = uint32(s.degree), s.class
	old := v.row(s.vertex)
	if s.class == 0 {
		c.merge(s, old, row{record[recordInline : recordInline+v.inline()], weights{v.weight, bytes[v.inlineWeights():]}})
	} else {
		record[recordBlock], record[recordBorn] = s.block, c.epoch
		c.merge(s, old, v.block(s.block, s.class))
	}
	copy(v.words(s.vertex), record)
}

// merge writes a row from the old row and the effects of the batch on its edges.
func (c *cpuChange) merge(s *segment, old, to row) {
	alive := batch.View[uint32](c.memory().alive.buf.Host)
	from, n := 0, 0 // positions in the old row and in the new row
	copyUntil := func(end int) {
		copy(to.ids[n:], old.ids[from:end])
		to.weights.copy(n, old.weights, from, end-from)
		n, from = n+end-from, end
	}
	for i := s.first; i < s.end; i++ {
		if c.nets[i] == netNone {
			continue
		}
		v := uint32(c.items[i].Key & (1<<c.bits - 1))
		upper := from + upperBound(old.ids[from:], v)
		if c.nets[i] == netAdd {
			copyUntil(upper)
		} else {
			first := upper
			for first > from && old.ids[first-1] == v {
				first--
			}
			copyUntil(first)
			from = upper // skip the old entries
		}
		if c.nets[i] == netRemove {
			continue
		}
		to.ids[n] = v
		if c.weight > 0 {
			to.weights.set(n, c.weights, int(c.items[i].Row>>c.arcShift))
		}
		n++
		if c.nets[i] == netAdd {
			c.markLive(alive, s.vertex)
			c.markLive(alive, v)
		}
	}
	copyUntil(len(old.ids))
}

// releaseBlocks frees the previous blocks of the rows, or retires the blocks that a snapshot uses.
func (c *cpuChange) releaseBlocks() {
	newest, held := c.newestSnapshot()
	var released [classes]int
	retired := 0
	for i := range c.segments {
		old := c.segments[i].oldBlock
		switch {
		case old.size == 0:
		case held && old.born <= newest:
			c.retired = append(c.retired, old)
			retired += unitsOf(old.size)
		default:
			c.stacks[old.size] = append(c.stacks[old.size], old.block)
			released[old.size]++
		}
	}
	c.countReleased(&released, retired)
}
