package experiment

import (
	"context"
	"math/bits"

	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/roofline"
	"github.com/weftgo/weft/internal/workload"
)

// published54 is table 5.4, in 10^6 vertices a second, from batches of 2^16 on.
var published54 = []float64{5.35, 9.23, 12.66, 19.21, 26.49}

var graphVerticesExperiment = Experiment{
	Name:  "graph-vertices",
	Title: "Batches of vertices, with all their edges, out of undirected graphs and in again",
	Doc: `After table 5.4 and section 5.5.1 of Awad's thesis: a batch of random vertices is deleted from an undirected graph, with all edges that they have, in both directions, and inserted
again, with these edges. Batches are of 2^16 to 2^20 vertices (2^8 to 2^14 on a CPU), an eighth of the graph's at most (--n 8388608 has all), in slices of Go; rates are in vertices, by the host's clock.` + generated + `
The limit is random compare-and-swaps of 64 bits, one a vertex. Published beside deletions: the thesis on a TITAN V, the mean over four of its graphs.`,
	run: func(ctx context.Context, r *runner) error {
		return r.eachGraph(ctx, func(t *graphTrial) error { return t.vertices(ctx) })
	},
	plots: func(res *Result) []Plot {
		return plotBatches(res, "vertex_delete", "graph-table5.4", "Vertices deleted")
	},
}

// vertices measures batches of vertices.
func (t *graphTrial) vertices(ctx context.Context) error {
	return t.layouts(ctx, false, true, func(g changing) error { return t.verticesOf(ctx, g) })
}

func (t *graphTrial) verticesOf(ctx context.Context, g changing) error {
	for _, size := range t.batches(t.size(8, 16), t.size(14, 20), max(16, t.csr.Vertices()/8)) {
		t.step("graph-vertices: %s, %s, batches of %d", t.name, g.layout(), size)
		if err := t.vertexBatch(ctx, g, size); err != nil {
			return err
		}
	}
	return nil
}

func (t *graphTrial) vertexBatch(ctx context.Context, g changing, size int) error {
	order := workload.NewPermutation(uint64(t.csr.Vertices()), t.Seed+4)
	ids := make([]uint32, min(size, t.csr.Vertices()))
	var edges graph.Edges
	seen, twice := make([]bool, t.csr.Vertices()), 0
	for i := range ids {
		ids[i] = uint32(order.At(uint64(i)))
		seen[ids[i]] = true
		for _, v := range t.csr.Neighbors(ids[i]) {
			edges.From, edges.To = append(edges.From, ids[i]), append(edges.To, v)
			if seen[v] {
				twice++
			}
		}
	}
	remove := func() error { return g.deleteVertices(ctx, ids, len(edges.From)-twice) }
	insert := func() error {
		err := g.insertVertices(ctx, ids)
		if err == nil {
			_, err = g.Insert(ctx, edges.From, edges.To, nil)
		}
		return err
	}
	if err := remove(); err != nil {
		return err
	}
	row := Row{Structure: g.layout(), Batch: len(ids)}
	took, err := t.clock(ctx, insert, remove)
	if err != nil {
		return err
	}
	if i := bits.TrailingZeros(uint(size)) - 16; t.onGPU() && i >= 0 && i < len(published54) {
		row.PublishedOpsPerS = figure(1e6 * published54[i])
	}
	t.report("vertex_delete", len(ids), took, roofline.CAS64, row)
	if err := insert(); err != nil {
		return err
	}
	if took, err = t.clock(ctx, remove, insert); err == nil {
		err = counted(g, "when all vertices are there again", t.csr.Edges())
	}
	row.PublishedOpsPerS = nil
	t.report("vertex_insert", len(ids), took, roofline.CAS64, row)
	return err
}
