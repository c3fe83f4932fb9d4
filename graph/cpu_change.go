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

// cpuChange is a batch of arcs in progress. Sorted by both ends, the arcs of a vertex form a
// segment, and those of one edge are in batch order within it.
type cpuChange struct {
	*cpuEngine
	items    []cpu.Item[uint64]
	bits     int // width of an end in the key of an item
	vertices int // number of records after the change

	kind    op.Kind
	kinds   []op.Kind // nil: all are of one kind
	ok      []bool    // of the batch; may be nil
	weights weights
	two     uint32 // 1: an operation has two arcs

	// nets has for each item the change of an edge, at its last arc. In a multigraph each arc that
	// adds an edge has a change, and the last one that removes all.
	nets     []net
	segments []segment
	changed  atomic.Uint64
	arcs     atomic.Int64 // change in the number of arcs
	loops    atomic.Int64
}

// net is the effect of a batch on an edge.
type net uint8

const (
	netNone net = iota
	netAdd
	netUpdate
	netRemove
)

// segment is the effect of a batch on a vertex.
type segment struct {
	vertex     uint32
	first, end int // items
	degree     int // after the change
	class      uint32
	block      uint32
	old        ghost // its previous block
}

// change implements engine.
func (e *cpuEngine) change(ctx context.Context, _ *device.Stream, b *batch.Batch) (uint64, error) {
	c := &cpuChange{
		cpuEngine: e, kind: b.Kind, kinds: batch.View[op.Kind](b.Columns[batch.Kinds].Host),
		ok: batch.View[bool](b.Columns[batch.OK].Host), weights: weights{e.weight, b.Columns[batch.Vals].Host}, two: uint32(e.arcsOf() - 1),
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

// keys returns the arcs of a batch as keys. Arcs without a place in rows come after all others.
func (c *cpuChange) keys(b *batch.Batch) []uint64 {
	from, to := batch.View[uint32](b.Columns[batch.Keys].Host), batch.View[uint32](b.Columns[batch.Keys2].Host)
	var end atomic.Uint32 // of all vertices; most: of those that get records
	var most atomic.Uint32
	c.host.Parallel(b.N, grain, func(lo, hi int) {
		all, put := uint32(0), uint32(0)
		for i := lo; i < hi; i++ {
			if c.beyond(from[i], to[i]) { // of a deletion, which finds nothing
				continue
			}
			all = max(all, from[i]+1, to[i]+1)
			if c.kindOf(uint32(i)) == op.Put && (from[i] != to[i] || c.opts.SelfLoops) {
				put = max(put, from[i]+1, to[i]+1)
			}
		}
		raise(&end, all)
		raise(&most, put)
	})
	c.bits = bits.Len32(end.Load())
	c.vertices = max(c.cpuEngine.vertices, int(most.Load()))
	keys := make([]uint64, b.N<<c.two)
	const dropped = ^uint64(0)
	c.host.Parallel(b.N, grain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			u, v := uint64(from[i]), uint64(to[i])
			there, back := u<<c.bits|v, v<<c.bits|u
			if u == v {
				if back = dropped; !c.opts.SelfLoops {
					there = dropped
				}
			}
			if c.beyond(from[i], to[i]) {
				there, back = dropped, dropped
			}
			keys[i<<c.two] = there
			if c.two != 0 {
				keys[2*i+1] = back
			}
		}
	})
	return keys
}

// raise sets n to at least a value.
func raise(n *atomic.Uint32, to uint32) {
	for old := n.Load(); old < to && !n.CompareAndSwap(old, to); old = n.Load() {
	}
}

// run changes the rows. It modifies nothing that readers use until it writes the records.
func (c *cpuChange) run(ctx context.Context) error {
	c.cut()
	v := c.now()
	c.nets = make([]net, len(c.items))
	c.each(func(s *segment) { c.settle(v, s) })
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.place(); err != nil {
		return err
	}
	c.cpuEngine.vertices = c.vertices
	to := c.now()
	c.each(func(s *segment) { c.write(to, s) })
	c.release()
	c.store.arcs += uint64(c.arcs.Load())
	c.store.loops += uint64(c.loops.Load())
	return nil
}

// each calls f for all segments, on all cores.
func (c *cpuChange) each(f func(*segment)) {
	c.host.Parallel(len(c.segments), someVertices, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(&c.segments[i])
		}
	})
}

// cut finds the segments. Dropped arcs belong to none: their operations did nothing.
func (c *cpuChange) cut() {
	n, _ := slices.BinarySearchFunc(c.items, ^uint64(0), func(x cpu.Item[uint64], k uint64) int {
		if x.Key < k {
			return -1
		}
		return 0
	})
	for _, x := range c.items[n:] {
		if c.ok != nil && x.Row&c.two == 0 {
			c.ok[x.Row>>c.two] = false
		}
	}
	c.items = c.items[:n]
	parts := make([][]segment, (n+grain-1)/grain)
	c.host.Parallel(n, grain, func(lo, hi int) {
		var own []segment
		for i := lo; i < hi; i++ {
			u := c.items[i].Key >> c.bits
			if i == 0 || c.items[i-1].Key>>c.bits != u {
				own = append(own, segment{vertex: uint32(u), first: i})
			}
		}
		parts[lo/grain] = own
	})
	c.segments = slices.Concat(parts...)
	for i := range c.segments {
		c.segments[i].end = n
		if i+1 < len(c.segments) {
			c.segments[i].end = c.segments[i+1].first
		}
	}
}

// settle resolves the operations on each edge of a vertex and their outcomes. In a multigraph
// insertions add to the existing edges, and a deletion removes all parallel edges.
func (c *cpuChange) settle(v *view, s *segment) {
	r := v.row(s.vertex)
	changed, loops, at := uint64(0), 0, 0
	s.degree = len(r.ids)
	for i := s.first; i < s.end; {
		key := c.items[i].Key
		to := uint32(key & (1<<c.bits - 1))
		further, was := slices.BinarySearch(r.ids[at:], to)
		at += further
		is, first := was, i
		for ; i < s.end && c.items[i].Key == key; i++ {
			operation := c.items[i].Row >> c.two
			puts := c.kindOf(operation) == op.Put
			if done := puts != is || puts && c.opts.Multi; c.items[i].Row&c.two == 0 {
				if c.ok != nil {
					c.ok[operation] = done
				}
				if done {
					changed++
				}
			}
			is = puts
		}
		delta := 0
		switch {
		case c.opts.Multi:
			delta = c.among(first, i, search(r.ids[at:], to))
		case is && !was:
			c.nets[i-1], delta = netAdd, 1
		case was && !is:
			c.nets[i-1], delta = netRemove, -1
		case is && c.weight > 0:
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
		s.old = ghost{block: words[recordBlock], size: words[recordClass], born: words[recordBorn], died: c.epoch}
	}
}

// among resolves the arcs first to end-1 of parallel edges; were is the number of existing ones. It
// returns the change in their number.
func (c *cpuChange) among(first, end, were int) (more int) {
	for i := end - 1; i >= first; i-- {
		if c.kindOf(c.items[i].Row>>c.two) != op.Put {
			c.nets[i] = netRemove
			return more - were
		}
		c.nets[i] = netAdd
		more++
	}
	return more
}

// place assigns blocks to new rows.
func (c *cpuChange) place() error {
	var need [classes]int
	for i := range c.segments {
		need[c.segments[i].class]++
	}
	need[0] = 0
	from, units := c.take(&need)
	if err := c.room(units, c.vertices, zero); err != nil {
		return err
	}
	c.took(&need, units)
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

// write writes the new row of a vertex, and then its record.
func (c *cpuChange) write(v *view, s *segment) {
	if int(s.vertex) >= v.vertices {
		return // nothing was deleted from an absent vertex
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

// merge makes a row from an old one and the changes of its edges.
func (c *cpuChange) merge(s *segment, old, to row) {
	alive := batch.View[uint32](c.memory().alive.buf.Host)
	from, n := 0, 0 // positions in the old row and in the new one
	keep := func(end int) {
		copy(to.ids[n:], old.ids[from:end])
		to.weights.copy(n, old.weights, from, end-from)
		n, from = n+end-from, end
	}
	for i := s.first; i < s.end; i++ {
		if c.nets[i] == netNone {
			continue
		}
		v := uint32(c.items[i].Key & (1<<c.bits - 1))
		behind := from + search(old.ids[from:], v)
		if c.nets[i] == netAdd {
			keep(behind)
		} else {
			first := behind
			for first > from && old.ids[first-1] == v {
				first--
			}
			keep(first)
			from = behind // skip the old entries
		}
		if c.nets[i] == netRemove {
			continue
		}
		to.ids[n] = v
		if c.weight > 0 {
			to.weights.set(n, c.weights, int(c.items[i].Row>>c.two))
		}
		n++
		if c.nets[i] == netAdd {
			c.enliven(alive, s.vertex)
			c.enliven(alive, v)
		}
	}
	keep(len(old.ids))
}

// release frees the previous blocks of rows, or retires them for snapshots.
func (c *cpuChange) release() {
	newest, held := c.newest()
	var released [classes]int
	limbo := 0
	for i := range c.segments {
		old := c.segments[i].old
		switch {
		case old.size == 0:
		case held && old.born <= newest:
			c.ghosts = append(c.ghosts, old)
			limbo += unitsOf(old.size)
		default:
			c.stacks[old.size] = append(c.stacks[old.size], old.block)
			released[old.size]++
		}
	}
	c.gave(&released, limbo)
}
