package experiment

import (
	"context"
	"errors"
	"math/bits"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// Tables 5.2 and 5.3 of Awad's thesis in 10^6 edges per second, from batches of 2^16 on.
var (
	published52 = []float64{501.33, 513.56, 591.06, 641.25, 664.52, 658.09, 646.01}
	published53 = []float64{640.63, 886.92, 947.60, 939.98, 988.85, 1007.16, 1015.47}
)

var graphInsertExperiment = Experiment{
	Name:  "awad-table5.2",
	Was:   "graph-insert",
	Title: "Batches of edges into graphs that are there",
	Doc: `After table 5.2 of Awad's thesis: batches of 2^16 to 2^22 (2^10 to 2^18 on a CPU) edges between random vertices, which may come twice and may be there, into a
directed graph that has both arcs of each edge.` + generated + `
The limit is random compare-and-swaps of 64 bits in a region as large as the graph: what a hash table pays for an edge. Published beside it: the thesis' hash tables on a TITAN V,
the mean over its graphs.`,
	run: func(ctx context.Context, r *runner) error {
		return r.eachGraph(ctx, func(t *graphTrial) error { return t.edgeBatches(ctx, "insert", t.random, published52) })
	},
	plots: func(res *Result) []Plot { return plotBatches(res, "insert", "graph-table5.2", "Edges inserted") },
}

var graphDeleteExperiment = Experiment{
	Name:  "awad-table5.3",
	Was:   "graph-delete",
	Title: "Batches of edges out of graphs",
	Doc: `After table 5.3 of Awad's thesis: batches of 2^16 to 2^22 (2^10 to 2^18 on a CPU) random arcs of a directed graph, which may come twice.` + generated + `
The limit is random compare-and-swaps of 64 bits in a region as large as the graph. Published beside it: the thesis' hash tables on a TITAN V, the mean over its graphs.`,
	run: func(ctx context.Context, r *runner) error {
		return r.eachGraph(ctx, func(t *graphTrial) error { return t.edgeBatches(ctx, "delete", t.present, published53) })
	},
	plots: func(res *Result) []Plot { return plotBatches(res, "delete", "graph-table5.3", "Edges deleted") },
}

// edgeBatches measures batches that insert or delete edges. It undoes each batch before the next
// run.
func (t *graphTrial) edgeBatches(ctx context.Context, op string, draw func(n int) graph.Edges, published []float64) error {
	return t.layouts(ctx, true, true, func(g changeableGraph) error { return t.edgeBatchesOf(ctx, g, op, draw, published) })
}

func (t *graphTrial) edgeBatchesOf(ctx context.Context, g changeableGraph, op string, draw func(n int) graph.Edges, published []float64) error {
	for _, size := range t.batches(t.size(10, 16), t.size(18, 22), 2*t.csr.Arcs()) {
		t.step("graph-%s: %s, %s, batches of %d", op, t.name, g.layout(), size)
		row := Row{Structure: g.layout(), Batch: size}
		if i := bits.TrailingZeros(uint(size)) - 16; t.onGPU() && i >= 0 && i < len(published) {
			row.PublishedOpsPerS = figure(1e6 * published[i])
		}
		if err := t.edgeBatch(ctx, g, op, draw(size), row); err != nil {
			return err
		}
	}
	return nil
}

func (t *graphTrial) edgeBatch(ctx context.Context, g changeableGraph, op string, e graph.Edges, row Row) (err error) {
	from, err := device.Upload(t.stream, e.From)
	if err != nil {
		return err
	}
	to, err := device.Upload(t.stream, e.To)
	defer func() { err = errors.Join(err, t.free(&from, &to)) }()
	if err != nil {
		return err
	}
	before, done := g.Edges(), make([]bool, len(e.From))
	do, undo, on := g.Insert, g.Delete, g.insertOn
	if op == "delete" {
		do, undo, on = g.Delete, g.Insert, g.deleteOn
	}
	n, err := do(ctx, e.From, e.To, done)
	if err != nil {
		return err
	}
	if op == "delete" {
		n = -n
	}
	changed := e.Filter(done)
	elapsed, err := t.median(ctx, func() error {
		_, err := undo(ctx, changed.From, changed.To, nil)
		return err
	}, func() error { return on(t.stream, from, to) })
	if err == nil {
		err = g.Sync(ctx)
	}
	if err == nil {
		err = counted(g, "behind the batch", before+n)
	}
	if err == nil {
		_, err = undo(ctx, changed.From, changed.To, nil)
	}
	if err == nil {
		err = counted(g, "when it is undone", before)
	}
	if err != nil {
		return err
	}
	t.report(op, len(e.From), elapsed, roofline.CAS64, row)
	return nil
}

// seriesOf returns the name of a row's line: the graph and, unless the layout is that of package
// graph, the layout.
func seriesOf(row Row) string {
	switch row.Structure {
	case "graph":
		return row.Graph.Name
	case slabLayout:
		return row.Graph.Name + ", slabs"
	}
	return row.Graph.Name + ", " + row.Structure
}

// plotBatches plots rates over batch sizes, one line per graph.
func plotBatches(res *Result, op, name, title string) []Plot {
	p := Plot{Name: name, Title: title, XLabel: "edges of a batch", YLabel: "edges per second", LogX: true, LogY: true}
	for _, row := range res.Rows {
		if row.Op == op {
			p.point(seriesOf(row), float64(row.Batch), row.OpsPerS)
		}
	}
	for _, row := range res.Rows {
		if row.PublishedOpsPerS != nil && row.Structure == slabLayout && row.Graph.Name == res.Rows[0].Graph.Name {
			p.point("published: thesis, TITAN V", float64(row.Batch), *row.PublishedOpsPerS)
			p.Series[len(p.Series)-1].Published = true
		}
	}
	return nonEmpty(p)
}
