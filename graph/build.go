package graph

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/cpu"
)

// Edges is a list of edges. Edge i leads from From[i] to To[i] in a directed graph, and connects
// the two in an undirected graph. Both slices have the same length.
type Edges struct {
	// Vertices is the number of vertices. If it is 0, the number is one more than the largest
	// vertex of an edge.
	Vertices int
	From, To []uint32
}

// Options configures a graph. The zero value and nil configure a simple undirected graph.
type Options struct {
	// Directed keeps the direction of edges. By default an edge lies in the rows of both its ends,
	// and edges from u to v and from v to u are one edge.
	Directed bool
	// SelfLoops keeps edges from a vertex to itself. By default they are dropped.
	SelfLoops bool
	// Multi keeps repeated edges, in the order of the list, so that the graph is a multigraph. By
	// default only the last of several equal edges is kept.
	Multi bool
	// MaxVertices bounds the number of vertices, so that one wrong vertex number does not exhaust
	// the memory. The default is 2^28, the maximum 2^32-1.
	MaxVertices int
}

const (
	// defaultVertices is the default of MaxVertices. The offsets then take up to 2 GiB.
	defaultVertices = 1 << 28
	// maxVertices reserves one 32-bit number to mean "no vertex".
	maxVertices = math.MaxUint32
	// maxArcs is the maximum number of arcs, which the sort numbers with 32 bits.
	maxArcs = math.MaxUint32
)

// Build makes a graph from a list of edges. If an edge has a vertex that is not less than
// opts.MaxVertices or edges.Vertices, Build returns weft.ErrOptions with the position of the edge.
// Build panics if From and To differ in length.
func Build(ctx context.Context, dev device.Device, edges Edges, opts *Options) (*CSR, error) {
	g, _, err := build[uint32](ctx, dev, edges, nil, opts)
	return g, err
}

// build makes the rows of a graph. It also returns the weights, if given, in the order of the rows.
func build[W Weight](ctx context.Context, dev device.Device, edges Edges, weights []W, opts *Options) (*CSR, []W, error) {
	if len(edges.From) != len(edges.To) {
		panic(fmt.Sprintf("graph: build: %d edges have a first vertex, but %d have a second one",
			len(edges.From), len(edges.To)))
	}
	host, err := hostOf(dev)
	if err != nil {
		return nil, nil, err
	}
	b := builder{host: host, edges: edges}
	if opts != nil {
		b.Options = *opts
	}
	if err := b.checkVertices(); err != nil {
		return nil, nil, fmt.Errorf("graph: build: %w", err)
	}
	var items []cpu.Item[uint64]
	if len(edges.From) > 0 {
		var s cpu.Sorter[uint64]
		if items, err = s.Sort(ctx, host, b.keys(), 0); err != nil {
			return nil, nil, fmt.Errorf("graph: build: %w", err)
		}
	}
	g := b.rows(items)
	if weights == nil {
		return g, nil, ctx.Err()
	}
	sorted := make([]W, len(g.neighbors))
	b.eachKept(items, func(i, at int) { sorted[at] = weights[b.edgeOf(items[i].Row)] })
	return g, sorted, ctx.Err()
}

type builder struct {
	Options
	host       device.Host
	edges      Edges
	n          int   // vertices
	bits       int   // number of bits of a vertex in a sort key; dropped arcs have the source n
	keptBefore []int // element i counts the kept arcs before sorted arc i*grain
}

// checkVertices checks the vertices of the edges and sets n and bits.
func (b *builder) checkVertices() error {
	if b.MaxVertices < 0 || b.MaxVertices > maxVertices {
		return fmt.Errorf("%w: MaxVertices %d, want 1 to %d, or 0 for %d", weft.ErrOptions, b.MaxVertices, maxVertices, defaultVertices)
	}
	limit := b.MaxVertices
	if limit == 0 {
		limit = defaultVertices
	}
	if b.edges.Vertices < 0 || b.edges.Vertices > limit {
		return fmt.Errorf("%w: %d vertices, want 0 to %d, the limit", weft.ErrOptions, b.edges.Vertices, limit)
	}
	if b.arcs() > maxArcs {
		return fmt.Errorf("%w: %d edges make %d arcs, more than %d", weft.ErrOptions, len(b.edges.From), b.arcs(), maxArcs)
	}
	if b.edges.Vertices > 0 {
		limit = b.edges.Vertices
	}
	var largest atomic.Uint32
	bad := minIndex{}
	b.host.Parallel(len(b.edges.From), grain, func(lo, hi int) {
		maxEnd := uint32(0)
		for i := lo; i < hi; i++ {
			end := max(b.edges.From[i], b.edges.To[i])
			if uint64(end) >= uint64(limit) {
				bad.add(i)
				return
			}
			maxEnd = max(maxEnd, end)
		}
		for old := largest.Load(); old < maxEnd && !largest.CompareAndSwap(old, maxEnd); old = largest.Load() {
		}
	})
	if i, ok := bad.value(); ok {
		return fmt.Errorf("%w: edge %d from %d to %d: vertices are 0 to %d%s", weft.ErrOptions, i, b.edges.From[i], b.edges.To[i], limit-1, b.remedy())
	}
	if b.n = b.edges.Vertices; b.n == 0 && len(b.edges.From) > 0 {
		b.n = int(largest.Load()) + 1
	}
	b.bits = bits.Len(uint(b.n))
	return nil
}

func (b *builder) remedy() string {
	if b.edges.Vertices > 0 {
		return ", as Vertices says"
	}
	return "; MaxVertices allows more"
}

// arcs returns the number of arcs of all edges, including arcs that rows drops.
func (b *builder) arcs() int {
	if b.Directed {
		return len(b.edges.From)
	}
	return 2 * len(b.edges.From)
}

// keys returns the arcs as sort keys: the source in the high bits, the target in the low bits. The
// arcs of edge i lie before the arcs of edge i+1.
func (b *builder) keys() []uint64 {
	keys := make([]uint64, b.arcs())
	dropped := uint64(b.n) << b.bits
	b.host.Parallel(len(b.edges.From), grain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			u, v := uint64(b.edges.From[i]), uint64(b.edges.To[i])
			arc, reverse := u<<b.bits|v, v<<b.bits|u
			if u == v {
				reverse = dropped
				if !b.SelfLoops {
					arc = dropped
				}
			}
			if b.Directed {
				keys[i] = arc
			} else {
				keys[2*i], keys[2*i+1] = arc, reverse
			}
		}
	})
	return keys
}

// edgeOf returns the number of the edge that an arc belongs to.
func (b *builder) edgeOf(arc uint32) int {
	if b.Directed {
		return int(arc)
	}
	return int(arc / 2)
}

// rows makes the rows from the sorted arcs.
func (b *builder) rows(items []cpu.Item[uint64]) *CSR {
	b.countKept(items)
	total := b.keptBefore[len(b.keptBefore)-1]
	g := &CSR{offsets: make([]uint64, b.n+1), neighbors: make([]uint32, total), directed: b.Directed, sorted: true}
	var loops atomic.Int64
	var repeats atomic.Bool
	mask := uint64(1)<<b.bits - 1
	b.host.Parallel(len(items), grain, func(lo, hi int) {
		at, nLoops, repeated := b.keptBefore[lo/grain], 0, false
		last := -1 // row of the previous arc
		if lo > 0 {
			last = int(items[lo-1].Key >> b.bits)
		}
		for i := lo; i < hi; i++ {
			u, v := items[i].Key>>b.bits, items[i].Key&mask
			for ; last < int(u); last++ {
				g.offsets[last+1] = uint64(at)
			}
			if b.isKept(items, i) {
				g.neighbors[at] = uint32(v)
				at++
				if u == v {
					nLoops++
				}
				repeated = repeated || b.Multi && i > 0 && items[i-1].Key == items[i].Key
			}
		}
		loops.Add(int64(nLoops))
		if repeated {
			repeats.Store(true)
		}
	})
	last := -1
	if len(items) > 0 {
		last = int(items[len(items)-1].Key >> b.bits)
	}
	for ; last < b.n; last++ {
		g.offsets[last+1] = uint64(total)
	}
	g.loops = int(loops.Load())
	g.simple = g.loops == 0 && !repeats.Load()
	return g
}

func (b *builder) countKept(items []cpu.Item[uint64]) {
	b.keptBefore = make([]int, (len(items)+grain-1)/grain+1)
	b.host.Parallel(len(items), grain, func(lo, hi int) {
		n := 0
		for i := lo; i < hi; i++ {
			if b.isKept(items, i) {
				n++
			}
		}
		b.keptBefore[lo/grain] = n
	})
	at := 0
	for i, n := range b.keptBefore {
		b.keptBefore[i], at = at, at+n
	}
}

// isKept reports whether arc i is kept. Without Multi only the last of equal arcs is kept.
func (b *builder) isKept(items []cpu.Item[uint64], i int) bool {
	key := items[i].Key
	return key>>b.bits < uint64(b.n) && (b.Multi || i+1 == len(items) || items[i+1].Key != key)
}

// eachKept calls f with the index of each kept arc in items, and its position in the rows.
func (b *builder) eachKept(items []cpu.Item[uint64], f func(i, at int)) {
	b.host.Parallel(len(items), grain, func(lo, hi int) {
		at := b.keptBefore[lo/grain]
		for i := lo; i < hi; i++ {
			if b.isKept(items, i) {
				f(i, at)
				at++
			}
		}
	})
}
