package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// Awad's table 5.5 in milliseconds, and table 5.6 in 10^6 edges per second, from batches of 2^20
// on.
var (
	published55 = map[string]float64{"road_usa": 27.91, "delaunay_n20": 2.494, "rgg_n_2_20_s0": 5.053, "coAuthorsDBLP": .835, "soc-LiveJournal1": 26.176, "soc-orkut": 39.907, "hollywood-2009": 42.387}
	published56 = []float64{841.31, 945.64, 993.82}
)

var graphBuildExperiment = Experiment{
	Name:  "awad-table5.5",
	Also:  []string{"awad-table5.6"},
	Was:   "graph-build",
	Title: "Graphs built at once and batch by batch",
	Doc: `After tables 5.5 and 5.6 of Awad's thesis: all arcs of a directed graph go into an empty one, in one batch (bulk, in random order; bulk_sorted, in the order of the rows), or in batches of
2^20 to 2^22 (2^12 to 2^16 on a CPU), in random order (incremental). csr is graph.Build, which makes a graph that does not change, on the cores of the host. What the thesis calls the worst case of its tables, and has in table 5.6, is slab-graph of one slab each:
every vertex gets one slab, since nobody knows ahead how many edges come, and a chain behind it that is not rehashed, or only of more than 8,192 neighbors. With --full a graph of 2^22 vertices with 24 arcs on average (rmat_24, 10^8 arcs on a GPU) is built at once, too. Rates are in arcs.` + generated + `
The limit is reading 8 bytes and writing 4 for each arc. The parameters have the milliseconds that the thesis published for graphs of table 5.1, which are larger. Published beside incremental: the thesis on a TITAN V, of the worst case.`,
	run: func(ctx context.Context, r *runner) error {
		r.result.Parameters["published_milliseconds"] = published55
		sets := slices.Clone(datasets)
		switch r.Scale {
		case Quick:
			sets = sets[:2]
		case Full:
			sets = append(sets, bulkGraph)
		}
		return r.onGraphs(ctx, sets, func(t *graphTrial) error { return t.builds(ctx) })
	},
	plots: func(res *Result) []Plot {
		return plotBatches(res, "incremental", "graph-table5.6", "Graphs built batch by batch")
	},
}

func (t *graphTrial) builds(ctx context.Context) error {
	t.step("awad-table5.5: %s", t.name)
	list := t.shuffled()
	if t.name == bulkGraph.name {
		return t.layouts(ctx, true, false, func(g changeableGraph) error { return t.bulks(ctx, g, list) })
	}
	elapsed, err := t.clock(ctx, func() error { return nil }, func() error {
		c, err := graph.Build(ctx, t.cpu, list, &graph.Options{Directed: true})
		if err == nil && c.Arcs() != len(list.From) {
			err = fmt.Errorf("%w: %d arcs were built, want %d", errWrong, c.Arcs(), len(list.From))
		}
		return err
	})
	if err != nil {
		return err
	}
	t.report("csr", len(list.From), elapsed, "arcs_12", Row{Structure: "csr"})
	err = t.layouts(ctx, true, false, func(g changeableGraph) error {
		if err := t.bulks(ctx, g, list); err != nil {
			return err
		}
		return t.incremental(ctx, g, list)
	})
	if err != nil {
		return err
	}
	g, err := t.tables(true, endless, slabLayout+" of one slab each")
	if err != nil {
		return err
	}
	return errors.Join(t.incremental(ctx, g, list), g.Close())
}

// endless is the maximum load that tables accept. Each vertex starts with one slab for 4,096
// neighbors, and its table is rehashed at twice that number.
const endless = 136

func (t *graphTrial) bulks(ctx context.Context, g changeableGraph, list graph.Edges) error {
	sorted := graph.Edges{From: t.from, To: t.csr.Targets()}
	if err := t.inBatches(ctx, g, "bulk_sorted", sorted, len(t.from), Row{}); err != nil {
		return err
	}
	return t.inBatches(ctx, g, "bulk", list, len(t.from), Row{})
}

func (t *graphTrial) incremental(ctx context.Context, g changeableGraph, list graph.Edges) error {
	for _, size := range t.batches(t.size(12, 20), t.size(16, 22), len(t.from)) {
		row := Row{Batch: size}
		if i := bits.TrailingZeros(uint(size)) - 20; t.onGPU() && i >= 0 && i < len(published56) {
			row.PublishedOpsPerS = figure(1e6 * published56[i])
		}
		if err := t.inBatches(ctx, g, "incremental", list, size, row); err != nil {
			return err
		}
	}
	return nil
}

// bulkGraph is an R-MAT graph with four times as many vertices as other graphs and 24 arcs per
// vertex. On a GPU it has 10^8 arcs.
var bulkGraph = dataset{name: "rmat_24", shrink: 1, make: func(ctx context.Context, dev device.Device, n int, seed uint64) (graph.Edges, error) {
	return rmatOf(12.25)(ctx, dev, 4*n, seed)
}}

// inBatches measures inserting a list of edges into an empty graph, in batches of the given size.
func (t *graphTrial) inBatches(ctx context.Context, g changeableGraph, op string, e graph.Edges, size int, row Row) (err error) {
	from, err := device.Upload(t.stream, e.From)
	if err != nil {
		return err
	}
	to, err := device.Upload(t.stream, e.To)
	defer func() { err = errors.Join(err, t.free(&from, &to)) }()
	if err != nil {
		return err
	}
	elapsed, err := t.median(ctx, func() error { return g.Clear(ctx) }, func() error {
		for lo := 0; lo < len(e.From); lo += size {
			hi := min(lo+size, len(e.From))
			if err := g.insertOn(t.stream, from.Sub(lo, hi), to.Sub(lo, hi)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = g.Sync(ctx)
	}
	if err == nil {
		err = counted(g, "were built", len(t.from))
	}
	if err == nil {
		err = t.bytes(ctx, g, &row)
	}
	if err != nil {
		return err
	}
	t.report(op, len(e.From), elapsed, "arcs_12", row)
	return nil
}

// bytes sets in a result row the memory per edge, and the share of the graph's row memory that
// holds entries.
func (t *graphTrial) bytes(ctx context.Context, g changeableGraph, row *Row) error {
	bytes, load, err := g.memory(ctx)
	if err != nil {
		return err
	}
	row.Structure, row.BytesPerEntry, row.Load = g.layout(), figure(float64(bytes)/float64(max(1, g.Edges()))), load
	return nil
}

var graphMemoryExperiment = Experiment{
	Name:  "awad-fig5.2",
	Was:   "graph-memory",
	Title: "Memory of graphs by their degree",
	Doc: `After figure 5.2 of Awad's thesis: directed R-MAT graphs of 2^20 vertices (2^16 on a CPU; as many as --n says) with 2 to 64 edges a vertex are built in one batch (build). The thesis varies the load of its hash
tables, and finds that insertions slow down to two fifths as chains of slabs become five long; so do we, of slab-graph, which is that layout; rows that are sorted (graph) have no load to choose. load is the part of used memory that has neighbors in it, B/entry what is used for an arc, records of vertices
with it. The limit is reading 8 bytes and writing 4 for each arc. --graph adds graphs of files.`,
	run: func(ctx context.Context, r *runner) error {
		var sets []dataset
		for _, degree := range map[Scale][]int{Quick: {2, 16}, Default: {2, 4, 8, 16, 32}, Full: {2, 4, 8, 16, 32, 64}}[r.Scale] {
			sets = append(sets, dataset{name: fmt.Sprintf("rmat_%d", degree), shrink: 1, make: rmatOf(float64(degree) / 2)})
		}
		return r.onGraphs(ctx, sets, func(t *graphTrial) (err error) {
			t.step("awad-fig5.2: %s", t.name)
			g, err := t.empty(true)
			if err != nil {
				return err
			}
			if err := errors.Join(t.inBatches(ctx, g, "build", t.shuffled(), t.csr.Arcs(), Row{}), g.Close()); err != nil {
				return err
			}
			for _, load := range map[Scale][]float64{Quick: {.7}, Default: {.35, .7, 1.4, 2.8, 5.6}, Full: {.35, .7, 1.4, 2.8, 5.6}}[r.Scale] {
				g, err := t.tables(true, load, fmt.Sprintf("%s of load %g", slabLayout, load))
				if err != nil {
					return err
				}
				if err := errors.Join(t.inBatches(ctx, g, "build", t.shuffled(), t.csr.Arcs(), Row{}), g.Close()); err != nil {
					return err
				}
			}
			return nil
		})
	},
	plots: func(res *Result) []Plot {
		rates := Plot{Name: "awad-fig5.2", Title: "Building by degree", XLabel: "mean degree", YLabel: "arcs per second", LogX: true}
		bytes := Plot{Name: "awad-fig5.2-memory", Title: "Memory by degree", XLabel: "mean degree", YLabel: "bytes an arc", LogX: true}
		for _, row := range res.Rows {
			rates.point(row.Structure, row.Graph.Degrees.Mean, row.OpsPerS)
			bytes.point(row.Structure, row.Graph.Degrees.Mean, *row.BytesPerEntry)
		}
		return nonEmpty(rates, bytes)
	},
}
