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

// Graph is a graph with rows spread over ranks, by the vertices that their edges come from: "1-D".
// In an undirected graph an edge is in the rows of both ends, as in package graph. Its methods are
// those of [graph.Graph], and collective except Close.
//
// Vertices belong to the rank of their [Slot]. A rank has records of 32 bytes of all vertices up to
// the largest that its rows have, and the edges of its own.
type Graph struct {
	table[uint32]
	local    *graph.Graph
	directed bool
	maximum  uint64 // of vertices
}

// NewGraph makes a graph without vertices. All ranks pass the same options. Errors: those of
// [graph.New], and [weft.ErrOptions] for a multigraph.
func NewGraph(r *Ranks, opts *graph.Options) (*Graph, error) {
	var o graph.Options
	if opts != nil {
		o = *opts
	}
	if o.Multi {
		return nil, fmt.Errorf("shard: NewGraph: %w: Multi; graphs on ranks keep an edge once",
			weft.ErrOptions)
	}
	g := &Graph{directed: o.Directed, maximum: uint64(o.MaxVertices)}
	if g.maximum == 0 {
		g.maximum = 1 << 28 // as package graph has it
	}
	o.Directed = true // a rank has the arcs of its own vertices
	local, err := graph.New(r.dev, &o)
	if err != nil {
		return nil, err
	}
	g.local, g.table = local, newTable[uint32](r, graphShard{local}, column.None)
	g.visitPages, g.loadPart = g.visitVertices, g.loadArcs
	return g, nil
}

// graphShard is a graph in the form of tables to save. Its length is its number of arcs.
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

// Arcs returns the number of entries in the rows of all ranks: that of edges if the graph is
// directed, else that of edges twice, but of self loops once.
func (g *Graph) Arcs(ctx context.Context) (int, error) { return g.Len(ctx) }

// Vertices returns the number of vertices: one more than the largest that an edge has had.
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

// Load loads what Save wrote, into a graph without edges, as [Map.Load] does. Others return
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

// Insert inserts edges and returns the number of new ones on all ranks. inserted, unless nil,
// reports which: of rows with one edge the first one of the lowest rank. Self loops are not
// inserted, unless Options allow them. A vertex that is not less than MaxVertices is
// [weft.ErrOptions] on all ranks, before anything is changed. After another error an edge of an
// undirected graph may be in one of its two rows: insert or delete it again.
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

// Delete deletes edges and returns the number of deleted ones on all ranks. deleted, unless nil,
// reports which.
func (g *Graph) Delete(ctx context.Context, from, to []uint32, deleted []bool) (int, error) {
	return g.change(ctx, methodDelete, from, to, deleted, nil, g.local.Delete)
}

// Has looks up edges, writes to found, unless nil, which exist, and returns the number of rows of
// all ranks that do.
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

// change sends edges to the rank of their source, and those of an undirected graph to that of their
// target, too.
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
	for i := 0; i < len(arcs); i += 2 { // the flag of the other way is the same
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

// toArcs returns the arcs of edges: those of edge i are 2i and 2i+1.
func toArcs(from, to []uint32) (f, t []uint32) {
	f, t = make([]uint32, 2*len(from)), make([]uint32, 2*len(from))
	for i, u := range from {
		f[2*i], t[2*i], f[2*i+1], t[2*i+1] = u, to[i], to[i], u
	}
	return f, t
}

// Degree writes the numbers of neighbors of vertices to degrees. If the graph is directed, these
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

// Rows returns the neighbors of vertices: those of vertices[i] are
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

// rowsBack sends rows back, and writes them in the order of the vertices of this rank.
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

// startsOf returns the offsets of parts with some lengths, and the end of the last one.
func startsOf(lengths []uint64) []uint64 {
	starts := make([]uint64, len(lengths)+1)
	for i, n := range lengths {
		starts[i+1] = starts[i] + n
	}
	return starts
}

// sums returns the lengths of runs of parts: each run has a number of them.
func sums(runs []int64, starts []uint64) []int64 {
	lengths, at := make([]int64, len(runs)), int64(0)
	for i, n := range runs {
		lengths[i] = int64(starts[at+n] - starts[at])
		at += n
	}
	return lengths
}

// visitVertices visits the vertices of this rank that have neighbors.
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

// loadArcs inserts the rows of a saved graph for the vertices to keep. The graph is held twice
// meanwhile.
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
