package algo

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/gpu/triangles"
)

// TrianglesOn counts the triangles of a graph on a device, and waits for the count. See
// [Triangles].
//
// On a GPU the graph is also oriented on the device. A kernel searches short rows. It hashes the
// row of a vertex with many neighbors into shared memory. Wedges are distributed over threads,
// warps or blocks, depending on their number.
func TrianglesOn(ctx context.Context, s *device.Stream, g *graph.DeviceCSR) (count uint64, err error) {
	if err := checkReadable("triangles", s, g); err != nil {
		return 0, err
	}
	if c := g.Host(); c != nil {
		if err := s.Sync(ctx); err != nil {
			return 0, err
		}
		return Triangles(ctx, g.Device(), c)
	}
	k, err := triangles.Load(g.Device())
	if err != nil {
		return 0, wrap("triangles", err)
	}
	view, err := g.Oriented(ctx, s)
	if err != nil {
		return 0, wrap("triangles", err)
	}
	count, err = k.Count(ctx, s, triangles.Rows{Offsets: view.Offsets(), Neighbors: view.Targets()})
	if err = errors.Join(err, view.Free()); err != nil {
		return 0, wrap("triangles", err)
	}
	return count, nil
}

// trianglesByKernels runs Triangles on a device with kernels.
func trianglesByKernels(ctx context.Context, dev device.Device, g *graph.CSR) (count uint64, err error) {
	err = onStream(ctx, dev, "triangles", func(s *device.Stream) error {
		uploaded, err := g.Upload(s)
		if err != nil {
			return err
		}
		count, err = TrianglesOn(ctx, s, uploaded)
		return errors.Join(err, s.Sync(context.Background()), uploaded.Free())
	})
	return count, err
}

// onStream runs f on a new stream.
func onStream(ctx context.Context, dev device.Device, name string, f func(s *device.Stream) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := dev.NewStream()
	if err != nil {
		return wrap(name, err)
	}
	return wrap(name, errors.Join(f(s), s.Close()))
}

// viewer is a graph that kernels can read in place.
type viewer interface {
	View(ctx context.Context, s *device.Stream, submit func(graph.Ref) error) error
}

var _, _ viewer = (*graph.Graph)(nil), (*graph.Snapshot)(nil)

// TrianglesOfOn counts the triangles of edges from[i] to to[i] in device memory, and waits for the
// result. See [TrianglesOf]. The optional only[0] selects the edges for which only[0][i] is true.
// Pass the output of [graph.Graph.InsertOn] there to avoid copying it to the host. On a CPU
// TrianglesOfOn returns device.ErrNoKernels.
func TrianglesOfOn(ctx context.Context, s *device.Stream, g Reader, from, to device.Slice[uint32], only ...device.Slice[bool]) (count uint64, err error) {
	if from.Len() != to.Len() {
		panic(fmt.Sprintf("algo: triangles of edges: %d edges have a first vertex, but %d have a second one", from.Len(), to.Len()))
	}
	var mask device.Slice[bool]
	if len(only) > 0 {
		mask = only[0]
		if mask.Len() != from.Len() {
			panic(fmt.Sprintf("algo: triangles of edges: %d flags for %d edges", mask.Len(),
				from.Len()))
		}
	}
	v, ok := g.(viewer)
	switch {
	case !ok:
		return 0, invalid("triangles of edges", "kernels cannot read a %T", g)
	case g.Directed():
		return 0, invalid("triangles of edges", "the graph is directed")
	}
	err = v.View(ctx, s, func(r graph.Ref) error {
		e := graph.DeviceEdges{From: from, To: to, Done: mask}
		err := e.Check(s.Device())
		var k *triangles.Kernels
		if err == nil {
			k, err = triangles.Load(s.Device())
		}
		if err == nil {
			count, err = k.CountBatch(ctx, s, triangles.Graph{Records: r.Records, Pool: r.Pool, Alive: r.Alive, Vertices: r.Vertices, Unit: r.Unit}, from, to, mask)
		}
		return err
	})
	return count, wrap("triangles of edges", err)
}

// trianglesOfByKernels runs TrianglesOf on the device of the graph.
func trianglesOfByKernels(ctx context.Context, dev device.Device, g Reader, edges graph.Edges) (count uint64, err error) {
	err = onStream(ctx, dev, "triangles of edges", func(s *device.Stream) error {
		from, err := device.Upload(s, edges.From)
		if err != nil {
			return err
		}
		to, err := device.Upload(s, edges.To)
		if err == nil {
			count, err = TrianglesOfOn(ctx, s, g, from, to)
		}
		return errors.Join(err, s.Sync(context.Background()), from.Free(), to.Free())
	})
	return count, err
}
