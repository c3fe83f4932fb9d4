package shard

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/graph"
)

// Graph is a graph with edges distributed over ranks by their source vertices ("1-D" partitioning).
// In an undirected graph each edge is in the rows of both ends, as in package graph. It has the
// methods of [graph.Graph]. All are collective except Close.
//
// A vertex belongs to the rank of its [Slot]. Each rank holds the edges of its own vertices, and a
// record of 32 bytes for every vertex up to the largest in these edges.
type Graph struct {
	table[uint32]
	local    *graph.Graph
	directed bool
	maximum  uint64 // vertices must be smaller
}

// NewGraph makes a graph without vertices. All ranks must pass the same options. It returns the
// errors of [graph.New], and [weft.ErrOptions] for a multigraph.
func NewGraph(r *Ranks, opts *graph.Options) (*Graph, error) {
	var o graph.Options
	if opts != nil {
		o = *opts
	}
	if o.Multi {
		return nil, fmt.Errorf("shard: NewGraph: %w: Multi is not supported: graphs on ranks keep an edge once",
			weft.ErrOptions)
	}
	g := &Graph{directed: o.Directed, maximum: uint64(o.MaxVertices)}
	if g.maximum == 0 {
		g.maximum = 1 << 28 // the default of package graph
	}
	o.Directed = true // each rank stores the arcs of its own vertices
	local, err := graph.New(r.dev, &o)
	if err != nil {
		return nil, err
	}
	g.local, g.table = local, newTable[uint32](r, graphShard{local}, column.None)
	g.visitPages, g.loadPart = g.visitVertices, g.loadArcs
	return g, nil
}

// graphShard adapts a graph to the interface stored. Its length is its number of arcs.
type graphShard struct{ *graph.Graph }

func (g graphShard) Len() int { return g.Arcs() }

func (g graphShard) Save(ctx context.Context, w io.Writer) (int, error) {
	return g.Arcs(), g.Graph.Save(ctx, w)
}

func (g graphShard) Load(ctx context.Context, r io.Reader) (int, error) {
	before := g.Arcs()
	err := g.Graph.Load(ctx, r)
	return g.Arcs() - before, err
}

// Clear removes all edges and vertices.
func (g *Graph) Clear(ctx context.Context) error { return g.table.Clear(ctx) }

// Arcs returns the number of arcs on all ranks. An edge of a directed graph is one arc. An edge of
// an undirected graph is two arcs, and a self loop one.
func (g *Graph) Arcs(ctx context.Context) (int, error) { return g.Len(ctx) }

// Vertices returns one more than the largest vertex that any edge has had.
func (g *Graph) Vertices(ctx context.Context) (n int, err error) {
	x := g.open(methodVertices)
	defer x.close()
	clear(x.sent)
	own, err := g.local.Stats(context.WithoutCancel(ctx))
	g.r.head[headArg] = uint64(own.Records)
	x.agree(ctx, err, false)
	for rank := range g.r.size {
		n = max(n, int(g.r.word(rank, headArg)))
	}
	if _, err = x.endEmpty(); err != nil {
		return 0, err
	}
	return n, nil
}

// Load loads a graph that Save wrote; see [Map.Load]. If the graph has edges already, the error is
// [weft.ErrOptions].
func (g *Graph) Load(ctx context.Context, dir string) (arcs int, err error) {
	if arcs, err = g.Arcs(ctx); err == nil && arcs > 0 {
		err = fmt.Errorf("shard: Load: %w: the graph has %d arcs already", weft.ErrOptions, arcs)
	}
	if err != nil {
		return 0, err
	}
	return g.table.Load(ctx, dir)
}

// Insert inserts edges and returns the number of new ones on all ranks. If inserted is not nil, it
// receives whether each edge is new. If an edge occurs several times, its first row on the lowest
// rank is the new one. Self loops are not inserted unless Options allow them. If a vertex is
// MaxVertices or larger, the error is [weft.ErrOptions] on all ranks, and nothing is changed. After
// any other error, an edge of an undirected graph may be in only one of its two rows. Insert or
// delete it again.
func (g *Graph) Insert(ctx context.Context, from, to []uint32, inserted []bool) (int, error) {
	var wrong error
	for i := range from {
		if v := max(from[i], to[i]); uint64(v) >= g.maximum {
			wrong = fmt.Errorf("%w: edge %d has vertex %d, MaxVertices is %d", weft.ErrOptions, i,
				v, g.maximum)
			break
		}
	}
	return g.change(ctx, methodInsert, from, to, inserted, wrong, g.local.Insert)
}

// Delete deletes edges and returns the number of deleted ones on all ranks. If deleted is not nil,
// it receives whether each edge was deleted.
func (g *Graph) Delete(ctx context.Context, from, to []uint32, deleted []bool) (int, error) {
	return g.change(ctx, methodDelete, from, to, deleted, nil, g.local.Delete)
}

// Has returns the number of rows on all ranks that are edges of the graph. If found is not nil, it
// receives whether each row is an edge.
func (g *Graph) Has(ctx context.Context, from, to []uint32, found []bool) (int, error) {
	x := g.open(methodHas)
	defer x.close()
	x.mustMatch(len(from), len(to), optional(found, len(from)))
	begin(ctx, x, from, combineNone, found != nil)
	f, t := sendColumn(x, keysOut, from), sendColumn(x, valsOut, to)
	x.applyFlags(ctx, found, func(ctx context.Context, is []bool) (int, error) {
		return g.local.Has(ctx, f, t, is)
	})
	return x.end()
}

// change sends edges to the ranks of their sources. Edges of an undirected graph go to the ranks of
// their targets, too.
func (g *Graph) change(
	ctx context.Context, call method, from, to []uint32, done []bool, wrong error,
	run func(context.Context, []uint32, []uint32, []bool) (int, error),
) (int, error) {
	x := g.open(call)
	defer x.close()
	x.mustMatch(len(from), len(to), optional(done, len(from)))
	if wrong == nil && !g.directed {
		from, to = toArcs(from, to)
	}
	x.refused = wrong
	begin(ctx, x, from, combineNone, done != nil || !g.directed)
	f, t := sendColumn(x, keysOut, from), sendColumn(x, valsOut, to)
	if g.directed {
		x.applyFlags(ctx, done, func(ctx context.Context, is []bool) (int, error) {
			return run(ctx, f, t, is)
		})
		return x.end()
	}
	arcs := make([]bool, len(from))
	x.applyFlags(ctx, arcs, func(ctx context.Context, is []bool) (int, error) {
		return run(ctx, f, t, is)
	})
	x.count = 0
	for i := 0; i < len(arcs); i += 2 { // the reverse arc has the same flag
		if done != nil {
			done[i/2] = arcs[i]
		}
		if arcs[i] {
			x.count++
		}
	}
	n, err := x.end()
	if p := (*weft.PartialError)(nil); errors.As(err, &p) {
		p.Done /= 2
		rows := p.Rows[:0]
		for _, arc := range p.Rows {
			if len(rows) == 0 || rows[len(rows)-1] != arc/2 {
				rows = append(rows, arc/2)
			}
		}
		p.Rows, p.Failed = rows, len(rows)
	}
	return n, err
}

// toArcs returns the arcs of undirected edges. Edge i becomes arcs 2i and 2i+1.
func toArcs(from, to []uint32) (f, t []uint32) {
	f, t = make([]uint32, 2*len(from)), make([]uint32, 2*len(from))
	for i, u := range from {
		f[2*i], t[2*i], f[2*i+1], t[2*i+1] = u, to[i], to[i], u
	}
	return f, t
}

// Degree writes the number of neighbors of each vertex to degrees. In a directed graph, neighbors
// are the targets of edges.
func (g *Graph) Degree(ctx context.Context, vertices, degrees []uint32) error {
	x := g.open(methodDegree)
	defer x.close()
	x.mustMatch(len(vertices), len(degrees))
	begin(ctx, x, vertices, combineAny, false)
	v := sendColumn(x, keysOut, vertices)
	answers := buffer[uint32](x, answersOut, x.receivedSum)
	clear(answers)
	x.apply(ctx, func(ctx context.Context) (int, error) {
		return 0, g.local.Degree(ctx, v, answers)
	})
	returnAnswers(x, answersIn, answers, degrees, false, 0)
	_, err := x.end()
	return err
}

// Rows returns the neighbors of vertices. The neighbors of vertices[i] are
// neighbors[offsets[i]:offsets[i+1]], in ascending order.
func (g *Graph) Rows(
	ctx context.Context, vertices []uint32,
) (offsets []uint64, neighbors []uint32, err error) {
	x := g.open(methodRows)
	defer x.close()
	begin(ctx, x, vertices, combineNone, false)
	v := sendColumn(x, keysOut, vertices)
	var ends []uint64
	var rows []uint32
	x.apply(ctx, func(ctx context.Context) (_ int, err error) {
		ends, rows, err = g.local.Rows(ctx, v)
		return 0, err
	})
	if x.failure != nil || len(ends) == 0 {
		ends, rows = make([]uint64, x.receivedSum+1), nil
	}
	if x.err == nil {
		offsets, neighbors = g.rowsBack(x, ends, rows, len(vertices))
	}
	if _, err := x.end(); err != nil {
		return nil, nil, err
	}
	return offsets, neighbors, nil
}

// rowsBack sends the neighbors back, and orders them like the n vertices of this rank.
func (g *Graph) rowsBack(
	x *exchange, ends []uint64, rows []uint32, n int,
) (offsets []uint64, neighbors []uint32) {
	degrees := make([]uint64, x.receivedSum)
	for i := range degrees {
		degrees[i] = ends[i+1] - ends[i]
	}
	own := exchangeColumn(x, degrees, x.received, make([]uint64, x.sentSum), x.sent)
	if x.err != nil {
		return nil, nil
	}
	starts := startsOf(own)
	out, in := sums(x.received, ends), sums(x.sent, starts)
	received := exchangeColumn(x, rows, out, make([]uint32, starts[len(own)]), in)
	offsets = make([]uint64, n+1)
	place := make([]uint32, n)
	x.visitShares(func(lo, hi int, at []uint32) {
		for i := lo; i < hi; i++ {
			rank := x.route[i]
			place[i] = at[rank]
			at[rank]++
		}
	})
	for i, p := range place {
		neighbors = append(neighbors, received[starts[p]:starts[p+1]]...)
		offsets[i+1] = uint64(len(neighbors))
	}
	return offsets, neighbors
}

// startsOf returns the offset of each part, followed by the end of the last part.
func startsOf(lengths []uint64) []uint64 {
	starts := make([]uint64, len(lengths)+1)
	for i, n := range lengths {
		starts[i+1] = starts[i] + n
	}
	return starts
}

// sums returns the total length of each run of parts. Run i has runs[i] parts. starts holds the
// offsets of all parts, as startsOf returns them.
func sums(runs []int64, starts []uint64) []int64 {
	lengths, at := make([]int64, len(runs)), int64(0)
	for i, n := range runs {
		lengths[i] = int64(starts[at+n] - starts[at])
		at += n
	}
	return lengths
}

func (g *Graph) visitVertices(ctx context.Context, visit func(vertices []uint32) error) error {
	rows, err := g.local.CSR(ctx)
	if err != nil {
		return err
	}
	var own []uint32
	for v := range uint32(rows.Vertices()) {
		if rows.Degree(v) > 0 {
			own = append(own, v)
		}
	}
	return visit(own)
}

// loadArcs inserts the arcs of a saved graph if keep selects their sources. It holds the whole
// saved graph in memory meanwhile.
func (g *Graph) loadArcs(
	ctx context.Context, from io.Reader, keep func(uint32) bool,
) (n int, err error) {
	whole, err := graph.New(g.r.dev, &graph.Options{Directed: true, SelfLoops: true,
		MaxVertices: int(g.maximum)})
	if err != nil {
		return 0, err
	}
	defer whole.Close()
	if err := whole.Load(ctx, from); err != nil {
		return 0, err
	}
	rows, err := whole.CSR(ctx)
	if err != nil {
		return 0, err
	}
	var f, t []uint32
	for v := range uint32(rows.Vertices()) {
		if keep(v) {
			for _, to := range rows.Neighbors(v) {
				f, t = append(f, v), append(t, to)
			}
		}
	}
	_, err = g.local.Insert(ctx, f, t, nil)
	return len(f), err
}
