package algo

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu/traversal"
)

// isHost reports whether Go code can run on the memory of a device. It returns true for nil, so
// that host then returns an error.
func isHost(dev device.Device) bool {
	_, ok := dev.(device.Host)
	return ok || dev == nil
}

// runUploaded uploads a graph to a device with kernels, calls run, and copies the column that run
// has filled to host memory.
func runUploaded[T device.Elem, G interface{ Free() error }](ctx context.Context, dev device.Device, name string, upload func(*device.Stream) (G, error), to []T, run func(s *device.Stream, g G, column device.Slice[T]) error) error {
	return onStream(ctx, dev, name, func(s *device.Stream) error {
		g, err := upload(s)
		if err != nil {
			return err
		}
		column, err := device.Make[T](dev, len(to))
		if err == nil {
			err = run(s, g, column)
		}
		if err == nil {
			err = column.CopyTo(ctx, s, to)
		}
		return errors.Join(err, s.Sync(context.Background()), column.Free(), g.Free())
	})
}

// checkReadable returns an error if the graph is freed, or the stream belongs to another device.
func checkReadable(name string, s *device.Stream, g *graph.DeviceCSR) error {
	switch {
	case g.Offsets().Len() == 0:
		return &failure{name, fmt.Errorf("%w: the graph has been freed", device.ErrClosed)}
	case s == nil || s.Device() != g.Device():
		return invalid(name, "the stream is on another device than the graph")
	}
	return nil
}

// checkPlaces checks that the stream and the column are on the device of the graph. It panics if
// the column does not have one element per vertex.
func checkPlaces[T device.Elem](name string, s *device.Stream, g *graph.DeviceCSR, column device.Slice[T]) error {
	if err := checkReadable(name, s, g); err != nil {
		return err
	}
	if column.Len() != g.Vertices() {
		panic(fmt.Sprintf("algo: %s: %d elements for %d vertices", name, column.Len(), g.Vertices()))
	}
	if column.Len() > 0 && column.Device() != g.Device() {
		return invalid(name, "the output is on another device than the graph")
	}
	return nil
}

// loadKernels loads the kernels for a graph and returns its rows as their parameter.
func loadKernels(name string, g *graph.DeviceCSR) (*traversal.Kernels, traversal.Graph, error) {
	k, err := traversal.Load(g.Device())
	if err != nil {
		return nil, traversal.Graph{}, wrap(name, err)
	}
	return k, rowsOf(g), nil
}

func rowsOf(g *graph.DeviceCSR) traversal.Graph {
	return traversal.Graph{Offsets: g.Offsets().Ptr(), Targets: g.Targets().Ptr(), Vertices: g.Vertices(), Arcs: g.Arcs(), Directed: g.Directed()}
}

// PageRankOn computes the ranks of a graph on a device and waits for them. ranks lies on the same
// device. See [PageRank].
func PageRankOn(ctx context.Context, s *device.Stream, g *graph.DeviceCSR, ranks device.Slice[uint64], opts *PageRankOptions) (r PageRankResult, err error) {
	if err := checkPlaces("PageRank", s, g, ranks); err != nil {
		return r, err
	}
	if c := g.Host(); c != nil {
		if err := s.Sync(ctx); err != nil {
			return r, err
		}
		return PageRank(ctx, g.Device(), c, ranks.Host(), opts)
	}
	o, err := opts.check()
	if err != nil || ranks.Len() == 0 {
		return r, err
	}
	k, rows, err := loadKernels("PageRank", g)
	if err != nil {
		return r, err
	}
	into, free, err := transpose(ctx, s, k, g, rows)
	if err == nil {
		w := fixed(o.Damping, uint64(ranks.Len()))
		rank := traversal.Rank{Damping: w.damping, Base: w.base, Iterations: o.Iterations, Limit: limitOf(o.Tolerance), Warm: o.Warm}
		var change uint64
		r.Iterations, change, err = k.PageRank(ctx, s, rows, into, ranks.Ptr(), rank)
		r.Change = float64(change) / RankOne
	}
	if err == nil && o.Tolerance < 0 {
		r.Iterations = o.Iterations // the remaining iterations would have changed nothing
	}
	return r, wrap("PageRank", errors.Join(err, free()))
}

// limitOf converts a tolerance to units of 1/RankOne: it returns the largest sum of rank changes
// within the tolerance.
func limitOf(tolerance float64) uint64 {
	lo, hi := uint64(0), uint64(math.MaxUint64)
	for lo < hi {
		if mid := lo + (hi-lo)/2 + 1; mid != 0 && float64(mid)/RankOne <= tolerance {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// transpose returns a graph with all edges reversed, and a function that frees it. For an
// undirected graph it returns the graph itself.
func transpose(ctx context.Context, s *device.Stream, k *traversal.Kernels, g *graph.DeviceCSR, rows traversal.Graph) (into traversal.Graph, free func() error, err error) {
	into = rows
	if !g.Directed() {
		return into, func() error { return nil }, nil
	}
	offsets, err := device.Make[uint64](g.Device(), g.Vertices()+1)
	var targets device.Slice[uint32]
	if err == nil {
		targets, err = device.Make[uint32](g.Device(), g.Arcs())
	}
	into.Offsets, into.Targets = offsets.Ptr(), targets.Ptr()
	if err == nil {
		err = k.Transpose(ctx, s, rows, into)
	}
	return into, func() error { return errors.Join(offsets.Free(), targets.Free()) }, err
}

// BFSOn searches a graph on a device breadth first and waits for the depths. depths lies on the
// same device. See [BFS].
func BFSOn(ctx context.Context, s *device.Stream, g *graph.DeviceCSR, source uint32, depths device.Slice[uint32]) (levels []int, err error) {
	if err := checkPlaces("BFS", s, g, depths); err != nil {
		return nil, err
	}
	if c := g.Host(); c != nil {
		if err := s.Sync(ctx); err != nil {
			return nil, err
		}
		return BFS(ctx, g.Device(), c, source, depths.Host())
	}
	if err := checkSource("BFS", g.Vertices(), source); err != nil {
		return nil, err
	}
	k, rows, err := loadKernels("BFS", g)
	if err != nil {
		return nil, err
	}
	levels, err = k.BFS(ctx, s, rows, source, depths.Ptr())
	return levels, wrap("BFS", err)
}

// ComponentsOn finds the connected components of a graph on a device and waits for the labels.
// labels lies on the same device. See [Components].
func ComponentsOn(ctx context.Context, s *device.Stream, g *graph.DeviceCSR, labels device.Slice[uint32]) (count int, err error) {
	if err := checkPlaces("components", s, g, labels); err != nil {
		return 0, err
	}
	if c := g.Host(); c != nil {
		if err := s.Sync(ctx); err != nil {
			return 0, err
		}
		return Components(ctx, g.Device(), c, labels.Host())
	}
	if labels.Len() == 0 {
		return 0, ctx.Err()
	}
	k, rows, err := loadKernels("components", g)
	if err != nil {
		return 0, err
	}
	count, err = k.Components(ctx, s, rows, labels.Ptr(), mostFrequent)
	return count, wrap("components", err)
}

// KCoreOn computes the core numbers of a graph on a device and waits for them. cores lies on the
// same device. See [KCore].
func KCoreOn(ctx context.Context, s *device.Stream, g *graph.DeviceCSR, cores device.Slice[uint32]) (largest uint32, err error) {
	if err := checkPlaces("KCore", s, g, cores); err != nil {
		return 0, err
	}
	if c := g.Host(); c != nil {
		if err := s.Sync(ctx); err != nil {
			return 0, err
		}
		return KCore(ctx, g.Device(), c, cores.Host())
	}
	if err := checkUndirected("KCore", g.Directed()); err != nil || cores.Len() == 0 {
		return 0, errors.Join(err, ctx.Err())
	}
	k, rows, err := loadKernels("KCore", g)
	if err != nil {
		return 0, err
	}
	largest, err = k.KCore(ctx, s, rows, g.Loops() > 0, cores.Ptr())
	return largest, wrap("KCore", err)
}

// SSSPOn computes shortest paths in a graph on a device and waits for the distances. distances lies
// on the same device. See [SSSP].
func SSSPOn[W graph.Weight, D Distance](ctx context.Context, s *device.Stream, g *graph.DeviceWeighted[W], source uint32, distances device.Slice[D]) (reached int, err error) {
	if err := checkPlaces("SSSP", s, g.DeviceCSR, distances); err != nil {
		return 0, err
	}
	if c := g.Host(); c != nil {
		if err := s.Sync(ctx); err != nil {
			return 0, err
		}
		return SSSP(ctx, g.Device(), c, source, distances.Host())
	}
	if err := errors.Join(checkSource("SSSP", g.Vertices(), source), checkTypes[W, D]()); err != nil {
		return 0, err
	}
	k, rows, err := loadKernels("SSSP", g.DeviceCSR)
	if err != nil {
		return 0, err
	}
	w := traversal.Weights{Ptr: g.Weights().Ptr(), Type: weightTypes[core.MapTypes[uint32, W]().Val]}
	bad, largest, mean, err := k.CheckWeights(ctx, s, rows, w)
	if err != nil {
		return 0, wrap("SSSP", err)
	}
	if bad >= 0 {
		return 0, badArc(ctx, s, g, bad)
	}
	if err := checkLongest[D](largest, g.Vertices()); err != nil {
		return 0, err
	}
	reached, err = k.SSSP(ctx, s, rows, w, mean, source, !integral[D](), distances.Ptr())
	return reached, wrap("SSSP", err)
}

// badArc returns the error of an arc with a negative weight or NaN.
func badArc[W graph.Weight](ctx context.Context, s *device.Stream, g *graph.DeviceWeighted[W], arc int) error {
	rows, err := g.Download(ctx, s)
	if err != nil {
		return err
	}
	return badWeight(rows, arc)
}

// weightTypes maps the types of weights to the types that kernels use.
var weightTypes = map[core.Type]traversal.WeightType{
	{Letter: 'u', Bits: 32}: traversal.Uint32, {Letter: 'i', Bits: 32}: traversal.Int32, {Letter: 'f', Bits: 32}: traversal.Float32,
	{Letter: 'u', Bits: 64}: traversal.Uint64, {Letter: 'i', Bits: 64}: traversal.Int64, {Letter: 'f', Bits: 64}: traversal.Float64,
}
