package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
)

var graphAlgorithmsExperiment = Experiment{
	Name:  "graph-algorithms",
	Title: "Searches, components, shortest paths and cores",
	Doc: `Algorithms of an undirected graph whose rows lie on the device, with results there: bfs and sssp from the vertex with the most neighbors (weights of arcs are 1 to 100, by their ends), components and kcore, all in arcs
of the graph a second, whether they are gone along or not; upload is the way of the rows there. Results are compared with those of the host.` + generated + `
The limit is reading 4 bytes for each arc. PageRank is in graph-pagerank.`,
	run: func(ctx context.Context, r *runner) error {
		return r.eachGraph(ctx, func(t *graphTrial) error { return t.algorithms(ctx) })
	},
}

// withGraph uploads a graph and allocates a column with the length of the slice host. It calls run
// with both, and frees them.
func withGraph[T device.Elem, G interface{ Free() error }](ctx context.Context, t *graphTrial, upload func(*device.Stream) (G, error), host []T, run func(G, device.Slice[T]) error) (err error) {
	d, err := upload(t.stream)
	if err != nil {
		return err
	}
	column, err := device.Make[T](t.Device, len(host))
	if err == nil {
		err = run(d, column)
	}
	return errors.Join(err, t.stream.Sync(context.WithoutCancel(ctx)), d.Free(), column.Free())
}

func (t *graphTrial) algorithms(ctx context.Context) error {
	t.step("graph-algorithms: %s", t.name)
	elapsed, err := t.clock(ctx, func() error { return nil }, func() error {
		d, err := t.csr.Upload(t.stream)
		if err != nil {
			return err
		}
		return errors.Join(t.stream.Sync(ctx), d.Free())
	})
	if err != nil {
		return err
	}
	t.report("upload", t.csr.Arcs(), elapsed, "arcs_4", Row{Structure: "csr"})
	hub := uint32(0)
	for v := range uint32(t.csr.Vertices()) {
		if t.csr.Degree(v) > t.csr.Degree(hub) {
			hub = v
		}
	}
	w := graph.NewWeighted(t.csr, make([]uint32, t.csr.Arcs()))
	for i, u := range t.csr.Targets() { // both directions of an edge get the same weight
		w.AllWeights()[i] = (u^t.from[i])*2654435761>>8%100 + 1
	}
	return errors.Join(
		t.vertexwise(ctx, "bfs", func(to []uint32) error {
			_, err := algo.BFS(ctx, t.cpu, t.csr, hub, to)
			return err
		}, func(d *graph.DeviceCSR, to device.Slice[uint32]) error {
			_, err := algo.BFSOn(ctx, t.stream, d, hub, to)
			return err
		}),
		t.vertexwise(ctx, "components", func(to []uint32) error {
			_, err := algo.Components(ctx, t.cpu, t.csr, to)
			return err
		}, func(d *graph.DeviceCSR, to device.Slice[uint32]) error {
			_, err := algo.ComponentsOn(ctx, t.stream, d, to)
			return err
		}),
		t.vertexwise(ctx, "kcore", func(to []uint32) error {
			_, err := algo.KCore(ctx, t.cpu, t.csr, to)
			return err
		}, func(d *graph.DeviceCSR, to device.Slice[uint32]) error {
			_, err := algo.KCoreOn(ctx, t.stream, d, to)
			return err
		}),
		measured(ctx, t, "sssp", w.Upload, func(to []uint64) error {
			_, err := algo.SSSP(ctx, t.cpu, w, hub, to)
			return err
		}, func(d *graph.DeviceWeighted[uint32], to device.Slice[uint64]) error {
			_, err := algo.SSSPOn(ctx, t.stream, d, hub, to)
			return err
		}),
	)
}

// vertexwise measures an algorithm that computes one number per vertex.
func (t *graphTrial) vertexwise(ctx context.Context, op string, host func([]uint32) error, run func(*graph.DeviceCSR, device.Slice[uint32]) error) error {
	return measured(ctx, t, op, t.csr.Upload, host, run)
}

// measured measures an algorithm on the device. The result must equal the result on the host.
func measured[T uint32 | uint64, G interface{ Free() error }](ctx context.Context, t *graphTrial, op string, upload func(*device.Stream) (G, error), host func([]T) error, run func(G, device.Slice[T]) error) error {
	want, got := make([]T, t.csr.Vertices()), make([]T, t.csr.Vertices())
	if err := host(want); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	err := withGraph(ctx, t, upload, got, func(d G, column device.Slice[T]) error {
		elapsed, err := t.clock(ctx, func() error { return nil }, func() error { return run(d, column) })
		if err == nil {
			err = column.CopyTo(ctx, t.stream, got)
		}
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("%w: the result is not that of the host", errWrong)
		}
		if err == nil {
			t.report(op, t.csr.Arcs(), elapsed, "arcs_4", Row{Structure: "csr"})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}
