package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var graphSnapshotsExperiment = Experiment{
	Name:  "graph-snapshots",
	Title: "What snapshots of graphs cost",
	Doc: `Eight batches of 2^20 (2^12 on a CPU) edges between random vertices go into a directed graph, while no snapshot is held (insert_held_0), one that was taken before (insert_held_1), and one more behind each
batch (insert_held_8). speedup is the rate over that without. B/entry is all memory of graph and snapshots then, for each edge; samples are the bytes that only snapshots have, behind the batches and when they are closed. snapshot is
taking one, in vertices a second, whose records are copied.` + generated + `
The limit is random compare-and-swaps of 64 bits in a region as large as the graph, of snapshots reading and writing 32 bytes for each vertex.`,
	run: func(ctx context.Context, r *runner) error {
		return r.eachGraph(ctx, func(t *graphTrial) error { return t.snapshots(ctx) })
	},
}

func (t *graphTrial) snapshots(ctx context.Context) (err error) {
	t.result.Limits["vertices_64"] = t.result.Limits[roofline.Copy] / 64
	g, err := t.load(ctx, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	var held []*graph.Snapshot
	release := func() (err error) {
		for _, s := range held {
			err = errors.Join(err, s.Close())
		}
		held = nil
		return err
	}
	defer func() { err = errors.Join(release(), err) }()
	takeSnapshot := func() error {
		s, err := g.Snapshot(ctx)
		if err == nil {
			held = append(held, s)
		}
		return err
	}
	t.step("graph-snapshots: %s: taking one", t.name)
	elapsed, err := t.clock(ctx, release, takeSnapshot)
	if err == nil {
		err = release()
	}
	if err != nil {
		return err
	}
	t.report("snapshot", t.csr.Vertices(), elapsed, "vertices_64", Row{})
	h := &snapshotGraph{graphTrial: t, g: g.Graph, takeSnapshot: takeSnapshot, release: release}
	return h.measure(ctx)
}

// snapshotGraph is a graph that changes while snapshots of it are open.
type snapshotGraph struct {
	*graphTrial
	g                     *graph.Graph
	takeSnapshot, release func() error
	size                  int
	from, to              device.Slice[uint32]
	fresh                 graph.Edges // edges that the batches insert
}

// measure measures the batches while no snapshot is open, while one is, and while a snapshot is
// opened before each batch.
func (h *snapshotGraph) measure(ctx context.Context) (err error) {
	h.size = max(1, min(h.graphTrial.size(1<<12, 1<<20), h.csr.Arcs()/snapshotBatches))
	all := h.random(snapshotBatches * h.size)
	done := make([]bool, len(all.From))
	if _, err := h.g.Insert(ctx, all.From, all.To, done); err != nil {
		return err
	}
	h.fresh = all.Filter(done)
	if h.from, err = device.Upload(h.stream, all.From); err != nil {
		return err
	}
	h.to, err = device.Upload(h.stream, all.To)
	defer func() { err = errors.Join(err, h.free(&h.from, &h.to)) }()
	if err != nil {
		return err
	}
	var baseline time.Duration
	for _, number := range []int{0, 1, snapshotBatches} {
		h.step("graph-snapshots: %s: %d held", h.name, number)
		elapsed, row, err := h.held(ctx, number)
		if err != nil {
			return fmt.Errorf("with %d snapshots: %w", number, err)
		}
		if number == 0 {
			baseline = elapsed
		} else {
			row.Speedup = figure(baseline.Seconds() / elapsed.Seconds())
		}
		h.report(fmt.Sprintf("insert_held_%d", number), snapshotBatches*h.size, elapsed, roofline.CAS64, row)
	}
	return nil
}

// held measures the batches while the given number of snapshots are open.
func (h *snapshotGraph) held(ctx context.Context, number int) (elapsed time.Duration, row Row, err error) {
	row = Row{Batch: h.size}
	elapsed, err = h.median(ctx, func() error {
		err := h.release()
		if err == nil {
			_, err = h.g.Delete(ctx, h.fresh.From, h.fresh.To, nil)
		}
		if err == nil && number > 0 {
			err = h.takeSnapshot()
		}
		return err
	}, func() error {
		for i := range snapshotBatches {
			if i > 0 && number > 1 {
				if err := h.takeSnapshot(); err != nil {
					return err
				}
			}
			lo, hi := i*h.size, (i+1)*h.size
			if err := h.g.InsertOn(h.stream, h.from.Sub(lo, hi), h.to.Sub(lo, hi), device.Slice[bool]{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = h.g.Sync(ctx)
	}
	if err == nil {
		err = counted(h.g, "behind the batches", h.csr.Arcs()+len(h.fresh.From))
	}
	if err != nil {
		return 0, row, err
	}
	open, err := h.g.Stats(ctx)
	if err != nil {
		return 0, row, err
	}
	row.BytesPerEntry = figure(open.BytesPerEdge())
	if err := h.release(); err != nil || number == 0 {
		return elapsed, row, err
	}
	closed, err := h.g.Stats(ctx)
	row.Samples = []float64{float64(open.RetiredBytes), float64(closed.RetiredBytes)}
	return elapsed, row, err
}
