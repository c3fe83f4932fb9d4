package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
)

var graphPageRankExperiment = Experiment{
	Name:  "graph-pagerank",
	Title: "PageRank, at once and while edges come",
	Doc: `Ten iterations of PageRank of an undirected graph (iteration, in arcs an iteration and second). Then batches of random edges come, of 2^6 to 2^18 (2^4 to 2^12 on a CPU): follow is what it takes to have the ranks follow
a batch, to a tolerance of 10^-6 over all vertices, and anew what it takes to export the graph and to compute them anew to the same tolerance; speedup is the one over the other. Rates are in edges of the batch.` + generated + `
On a GPU iterations, and ranks that are computed anew, are its work, from rows that lie there (anew exports them there); ranks that follow are computed on the cores of the host. The limit of an iteration is reading 4 bytes for each arc, that of
the others reading and writing them.`,
	run: func(ctx context.Context, r *runner) error {
		return r.eachGraph(ctx, func(t *graphTrial) error { return t.pageRank(ctx) })
	},
}

func (t *graphTrial) pageRank(ctx context.Context) (err error) {
	t.step("graph-pagerank: %s", t.name)
	if err := t.iterations(ctx); err != nil {
		return err
	}
	g, err := t.load(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	c, err := g.CSR(ctx)
	if err != nil {
		return err
	}
	f := &ranked{graphTrial: t, g: g.Graph, ranks: make([]uint64, c.Vertices())}
	if f.column, err = device.Make[uint64](t.Device, c.Vertices()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.column.Free()) }()
	if f.ranking, err = algo.NewRanking(ctx, t.cpu, c, nil); err != nil {
		return err
	}
	for _, size := range t.batches(t.size(4, 6), t.size(12, 18), t.csr.Edges()) {
		if err := f.batch(ctx, size); err != nil {
			return fmt.Errorf("batches of %d: %w", size, err)
		}
	}
	return nil
}

// iterations measures ten of PageRank, and compares the ranks with those of the host.
func (t *graphTrial) iterations(ctx context.Context) error {
	o := &algo.PageRankOptions{Iterations: 10, Tolerance: -1}
	want, got := make([]uint64, t.csr.Vertices()), make([]uint64, t.csr.Vertices())
	if _, err := algo.PageRank(ctx, t.cpu, t.csr, want, o); err != nil {
		return err
	}
	return withGraph(ctx, t, t.csr.Upload, got, func(d *graph.DeviceCSR, ranks device.Slice[uint64]) error {
		took, err := t.clock(ctx, func() error { return nil }, func() error {
			_, err := algo.PageRankOn(ctx, t.stream, d, ranks, o)
			return err
		})
		if err == nil {
			err = ranks.CopyTo(ctx, t.stream, got)
		}
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("%w: the ranks are not those of the host", errWrong)
		}
		if err == nil {
			t.report("iteration", o.Iterations*t.csr.Arcs(), took, "arcs_4", Row{Structure: "csr"})
		}
		return err
	})
}

// ranked is a graph that changes, and its ranks, in two ways.
type ranked struct {
	*graphTrial
	g       *graph.Graph
	ranking *algo.Ranking
	ranks   []uint64
	column  device.Slice[uint64] // for them, on the device
}

// batch measures batches of one size, each of which is taken back.
func (f *ranked) batch(ctx context.Context, size int) error {
	e, none, done := f.random(size), graph.Edges{}, make([]bool, size)
	var anew time.Duration
	took, err := f.repeat(ctx, f.Runs, func() (time.Duration, error) {
		if _, err := f.g.Insert(ctx, e.From, e.To, done); err != nil {
			return 0, err
		}
		fresh := e.Where(done)
		start := time.Now()
		_, err := f.ranking.Update(ctx, f.g, fresh, none)
		took := time.Since(start)
		if err == nil {
			anew, err = f.anew(ctx)
		}
		if err == nil {
			_, err = f.g.Delete(ctx, fresh.From, fresh.To, nil)
		}
		if err == nil {
			_, err = f.ranking.Update(ctx, f.g, none, fresh)
		}
		return took, err
	})
	if err != nil {
		return err
	}
	f.report("follow", size, took, "arcs_8", Row{Batch: size, Speedup: figure(anew.Seconds() / took.Seconds())})
	f.report("anew", size, anew, "arcs_8", Row{Batch: size})
	return nil
}

// anew computes ranks from the beginning, and compares: both are within 10^-6 · 0.85/0.15 of the exact ones.
func (f *ranked) anew(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	c, err := f.g.CSROn(ctx, f.stream)
	if err != nil {
		return 0, err
	}
	_, err = algo.PageRankOn(ctx, f.stream, c, f.column, nil)
	took := time.Since(start)
	if err = errors.Join(err, c.Free()); err == nil {
		err = f.column.CopyTo(ctx, f.stream, f.ranks)
	}
	if err != nil {
		return 0, err
	}
	off := 0.
	for v, r := range f.ranking.Ranks() {
		off += float64(max(r, f.ranks[v])-min(r, f.ranks[v])) / algo.RankOne
	}
	if off > 2e-6*.85/.15 {
		return 0, fmt.Errorf("%w: ranks that follow are %g from those that were computed anew", errWrong, off)
	}
	return took, nil
}
