package experiment

import (
	"context"
	"errors"
	"math/bits"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/gen"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// published54 is table 5.4 of Awad's thesis in 10^6 vertices per second, from batches of 2^16 on.
var published54 = []float64{5.35, 9.23, 12.66, 19.21, 26.49}

var graphVerticesExperiment = Experiment{
	Name:  "awad-table5.4",
	Was:   "graph-vertices",
	Title: "Batches of vertices, with all their edges, out of graphs and in again",
	Doc: `After table 5.4 and section 5.5.1 of Awad's thesis: a batch of random vertices is deleted from an undirected graph (vertex_delete), with all edges that they have, in both directions, and inserted
again, with these edges (vertex_insert), or deleted from a directed graph that has both arcs of each edge (vertex_delete_directed). Batches are of 2^16 to 2^20 vertices (2^8 to 2^14 on a CPU), an eighth of the graph's at most (--n 8388608 has all). Those that are deleted lie on the device, those that are inserted in
slices of Go; rates are in vertices.` + generated + `
uniform has 8 edges for each vertex, between random ends. The limit is random compare-and-swaps of 64 bits, one a vertex. Published beside deletions: the thesis on a TITAN V, the mean over four of its graphs.`,
	run: func(ctx context.Context, r *runner) error {
		sets := datasets[:2]
		if r.Scale != Quick {
			sets = append(slices.Clone(datasets), uniform)
		}
		return r.onGraphs(ctx, sets, func(t *graphTrial) error { return t.vertices(ctx) })
	},
	plots: func(res *Result) []Plot {
		return plotBatches(res, "vertex_delete", "graph-table5.4", "Vertices deleted")
	},
}

// uniform has random edges without hubs: 16 per vertex on average.
var uniform = dataset{name: "uniform", shrink: 1, make: func(ctx context.Context, dev device.Device, n int, seed uint64) (graph.Edges, error) {
	return gen.RMAT(ctx, dev, gen.RMATOptions{Scale: bits.Len(uint(n)) - 1, EdgeFactor: 8, A: .25, B: .25, C: .25, Seed: seed})
}}

func (t *graphTrial) vertices(ctx context.Context) error {
	for _, directed := range []bool{false, true} {
		if err := t.layouts(ctx, directed, true, func(g changeableGraph) error { return t.verticesOf(ctx, g, directed) }); err != nil {
			return err
		}
	}
	return nil
}

func (t *graphTrial) verticesOf(ctx context.Context, g changeableGraph, directed bool) error {
	for _, size := range t.batches(t.size(8, 16), t.size(14, 20), max(16, t.csr.Vertices()/8)) {
		t.step("awad-table5.4: %s, %s, batches of %d", t.name, g.layout(), size)
		b, err := t.vertexBatch(size, directed)
		if err == nil {
			err = b.measure(ctx, g, directed)
		}
		if err = errors.Join(err, t.free(&b.on, &b.count)); err != nil {
			return err
		}
	}
	return nil
}

// vertexBatch is a batch of vertices, and the edges that deleting them removes.
type vertexBatch struct {
	*graphTrial
	ids   []uint32
	on    device.Slice[uint32] // ids on the device
	count device.Slice[uint64]
	arcs  graph.Edges
	edges int
}

func (t *graphTrial) vertexBatch(size int, directed bool) (*vertexBatch, error) {
	order := workload.NewPermutation(uint64(t.csr.Vertices()), t.Seed+4)
	b := &vertexBatch{graphTrial: t, ids: make([]uint32, min(size, t.csr.Vertices()))}
	seen := make([]bool, t.csr.Vertices())
	for i := range b.ids {
		b.ids[i] = uint32(order.At(uint64(i)))
		seen[b.ids[i]] = true
	}
	for _, u := range b.ids {
		for _, v := range t.csr.Neighbors(u) {
			b.arcs.From, b.arcs.To = append(b.arcs.From, u), append(b.arcs.To, v)
			if directed && !seen[v] {
				b.arcs.From, b.arcs.To = append(b.arcs.From, v), append(b.arcs.To, u)
			}
			if directed || !seen[v] || u < v {
				b.edges++
			}
		}
	}
	if directed {
		b.edges = len(b.arcs.From)
	}
	var err error
	if b.on, err = device.Upload(t.stream, b.ids); err == nil {
		b.count, err = device.Make[uint64](t.Device, 1)
	}
	return b, err
}

// remove clears the count and submits deleting the vertices. The graph adds to the count.
func (b *vertexBatch) remove(g changeableGraph) error {
	return errors.Join(b.stream.Fill(b.count.Ptr(), 0, 2), g.DeleteVerticesOn(b.stream, b.on, b.count))
}

func (b *vertexBatch) insert(ctx context.Context, g changeableGraph) error {
	err := g.insertVertices(ctx, b.ids)
	if err == nil {
		_, err = g.Insert(ctx, b.arcs.From, b.arcs.To, nil)
	}
	return err
}

func (b *vertexBatch) removed(ctx context.Context, g changeableGraph) error {
	var n [1]uint64
	if err := b.count.CopyTo(ctx, b.stream, n[:]); err != nil {
		return err
	}
	if err := g.Sync(ctx); err != nil {
		return err
	}
	return checkCount(nil, "deleted with vertices", int(n[0]), g.deletedOf(len(b.ids), b.edges))
}

// measure deletes the vertices and inserts them again, several times.
func (b *vertexBatch) measure(ctx context.Context, g changeableGraph, directed bool) error {
	row, all := Row{Structure: g.layout(), Batch: len(b.ids)}, g.Edges()
	if err := b.remove(g); err != nil {
		return err
	}
	elapsed, err := b.median(ctx, func() error { return b.insert(ctx, g) }, func() error { return b.remove(g) })
	if err == nil {
		err = b.removed(ctx, g)
	}
	if err == nil {
		err = counted(g, "are left", all-b.edges)
	}
	if err == nil {
		err = b.insert(ctx, g)
	}
	if err == nil {
		err = counted(g, "when all vertices are there again", all)
	}
	if err != nil {
		return err
	}
	if directed {
		b.report("vertex_delete_directed", len(b.ids), elapsed, roofline.CAS64, row)
		return nil
	}
	back, err := b.clock(ctx, func() error { return errors.Join(b.remove(g), b.stream.Sync(ctx)) }, func() error { return b.insert(ctx, g) })
	if err != nil {
		return err
	}
	b.report("vertex_insert", len(b.ids), back, roofline.CAS64, row)
	if i := bits.TrailingZeros(uint(len(b.ids))) - 16; b.onGPU() && i >= 0 && i < len(published54) {
		row.PublishedOpsPerS = figure(1e6 * published54[i])
	}
	b.report("vertex_delete", len(b.ids), elapsed, roofline.CAS64, row)
	return counted(g, "when all vertices are there again", all)
}
