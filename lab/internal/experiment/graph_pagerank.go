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
All is the device's work, from edges and rows that lie there (anew exports them there). The limit of an iteration is reading 4 bytes for each arc, that of the others reading and writing them.`,
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
	if f.ranking, err = f.begin(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.ranking.Free()) }()
	for _, size := range t.batches(t.size(4, 6), t.size(12, 18), t.csr.Edges()) {
		if err := f.batch(ctx, size); err != nil {
			return fmt.Errorf("batches of %d: %w", size, err)
		}
	}
	return nil
}

// iterations measures ten iterations of PageRank and compares the ranks with those on the host.
func (t *graphTrial) iterations(ctx context.Context) error {
	o := &algo.PageRankOptions{Iterations: 10, Tolerance: -1}
	want, got := make([]uint64, t.csr.Vertices()), make([]uint64, t.csr.Vertices())
	if _, err := algo.PageRank(ctx, t.cpu, t.csr, want, o); err != nil {
		return err
	}
	return withGraph(ctx, t, t.csr.Upload, got, func(d *graph.DeviceCSR, ranks device.Slice[uint64]) error {
		elapsed, err := t.clock(ctx, func() error { return nil }, func() error {
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
			t.report("iteration", o.Iterations*t.csr.Arcs(), elapsed, "arcs_4", Row{Structure: "csr"})
		}
		return err
	})
}

// ranked is a changing graph. Its ranks are updated after each batch, and also computed anew for
// comparison.
type ranked struct {
	*graphTrial
	g       *graph.Graph
	ranking *algo.DeviceRanking
	ranks   []uint64
	column  device.Slice[uint64] // receives ranks that are computed anew
}

// begin computes the ranks that are updated later.
func (f *ranked) begin(ctx context.Context) (*algo.DeviceRanking, error) {
	rows, err := f.g.CSROn(ctx, f.stream)
	if err != nil {
		return nil, err
	}
	r, err := algo.NewRankingOn(ctx, f.stream, rows, nil)
	if err := errors.Join(err, rows.Free()); err != nil {
		return nil, err
	}
	return r, nil
}

// upload copies edges to the device, with a column of flags that mark the edges that take effect.
func (f *ranked) upload(e graph.Edges) (list graph.DeviceEdges, free func() error, err error) {
	list.From, err = device.Upload(f.stream, e.From)
	if err == nil {
		list.To, err = device.Upload(f.stream, e.To)
	}
	if err == nil {
		list.Done, err = device.Make[bool](f.Device, len(e.From))
	}
	return list, func() error { return errors.Join(list.From.Free(), list.To.Free(), list.Done.Free()) }, err
}

// batch measures batches of one size and undoes each.
func (f *ranked) batch(ctx context.Context, size int) error {
	e, empty := f.random(size), graph.DeviceEdges{}
	list, free, err := f.upload(e)
	if err != nil {
		return errors.Join(err, free())
	}
	var anew time.Duration
	elapsed, err := f.repeat(ctx, f.Runs, func() (time.Duration, error) {
		if err := f.g.InsertOn(f.stream, list.From, list.To, list.Done); err != nil {
			return 0, err
		}
		if err := f.stream.Sync(ctx); err != nil {
			return 0, err
		}
		start := time.Now()
		_, err := f.ranking.Update(ctx, f.stream, f.g, list, empty)
		elapsed := time.Since(start)
		if err == nil {
			anew, err = f.anew(ctx)
		}
		if err == nil {
			err = f.back(ctx, e, list)
		}
		return elapsed, err
	})
	if err := errors.Join(err, free()); err != nil {
		return err
	}
	f.report("follow", size, elapsed, "arcs_8", Row{Batch: size, Speedup: figure(anew.Seconds() / elapsed.Seconds())})
	f.report("anew", size, anew, "arcs_8", Row{Batch: size})
	return nil
}

func (f *ranked) back(ctx context.Context, e graph.Edges, list graph.DeviceEdges) error {
	done := make([]bool, len(e.From))
	if err := list.Done.CopyTo(ctx, f.stream, done); err != nil {
		return err
	}
	fresh, free, err := f.upload(e.Filter(done))
	if err == nil {
		err = f.g.DeleteOn(f.stream, fresh.From, fresh.To, fresh.Done)
	}
	if err == nil {
		_, err = f.ranking.Update(ctx, f.stream, f.g, graph.DeviceEdges{}, fresh)
	}
	return errors.Join(err, f.stream.Sync(ctx), free())
}

// anew computes ranks from scratch and compares them with the updated ranks. Both are within 10^-6
// · 0.85/0.15 of the exact ranks.
func (f *ranked) anew(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	c, err := f.g.CSROn(ctx, f.stream)
	if err != nil {
		return 0, err
	}
	_, err = algo.PageRankOn(ctx, f.stream, c, f.column, nil)
	elapsed := time.Since(start)
	if err = errors.Join(err, c.Free()); err == nil {
		err = f.column.CopyTo(ctx, f.stream, f.ranks)
	}
	if err != nil {
		return 0, err
	}
	followed := make([]uint64, f.ranking.Vertices())
	if err := f.ranking.Ranks().CopyTo(ctx, f.stream, followed); err != nil {
		return 0, err
	}
	off := 0.
	for v, r := range followed {
		off += float64(max(r, f.ranks[v])-min(r, f.ranks[v])) / algo.RankOne
	}
	if off > 2e-6*.85/.15 {
		return 0, fmt.Errorf("%w: ranks that follow are %g from those that were computed anew", errWrong, off)
	}
	return elapsed, nil
}
