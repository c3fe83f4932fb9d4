package neighbors

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/slab"
)

// asked runs queries on a graph of tables in a kernel, and compares the results with its rows.
func asked(t testing.TB, s *device.Stream, k *TableKernels, g *slab.WeightedGraph[uint32], r *rand.Rand) {
	t.Helper()
	ctx := t.Context()
	want, err := g.CSR(ctx)
	must(t, err)
	var from, to []uint32
	for u := range uint32(vertices + 2) {
		from, to = append(from, u, u, 1<<32-1, u), append(to, uint32(r.IntN(vertices)), u*7, u, 1<<32-1)
		if int(u) < want.Vertices() && want.Degree(u) > 0 {
			from, to = append(from, u), append(to, want.Neighbors(u)[r.IntN(want.Degree(u))])
		}
	}
	n := len(from)
	words := func() device.Slice[uint64] { return devicetest.Upload(t, s, make([]uint64, n)) }
	fromOn, toOn := devicetest.Upload(t, s, from), devicetest.Upload(t, s, to)
	degrees, exists, again := devicetest.Upload(t, s, make([]uint32, n)), devicetest.Upload(t, s, make([]uint8, n)), devicetest.Upload(t, s, make([]uint8, n))
	weights, joint, sums, tiles, total := words(), words(), words(), words(), words()
	must(t, g.View(ctx, s, func(r slab.GraphRef) error {
		p := tableAskParams{
			ref: r, from: fromOn.Ptr(), to: toOn.Ptr(), degrees: degrees.Ptr(), exists: exists.Ptr(), weights: weights.Ptr(),
			sums: sums.Ptr(), byTiles: tiles.Ptr(), n: uint32(n),
		}
		warps := p
		warps.exists, warps.weights = again.Ptr(), joint.Ptr()
		all := tableSumParams{ref: r, neighbors: total.Ptr(), weights: total.Ptr() + 8}
		return errors.Join(
			device.Launch(s, k.ask, gpu.Grid(n), gpu.Block, &p),
			device.Launch(s, k.joint, gpu.Grid(n), gpu.Block, &warps),
			device.Launch(s, k.tiles, gpu.Grid(4*n), gpu.Block, &p),
			device.Launch(s, k.sum, device.Dim{X: 2}, gpu.Block, &all),
		)
	}))
	var sum, weight uint64
	for i, v := range want.Targets() {
		sum += uint64(v)
		weight += uint64(want.AllWeights()[i])
	}
	if got := devicetest.Download(t, s, total); got[0] != sum || got[1] != weight {
		t.Fatalf("all neighbors and weights add up to %v, want %d and %d", got[:2], sum, weight)
	}
	d, e, w, sq, ts := devicetest.Download(t, s, degrees), devicetest.Download(t, s, exists), devicetest.Download(t, s, weights), devicetest.Download(t, s, sums), devicetest.Download(t, s, tiles)
	e2, w2 := devicetest.Download(t, s, again), devicetest.Download(t, s, joint)
	for i, u := range from {
		got, want := answer{d[i], e[i], w[i], sq[i], ts[i]}, tableAnswer(want, u, to[i])
		if got != want || e2[i] != want.exists || w2[i] != want.weight {
			t.Fatalf("vertex %d, edge to %d: %+v, by whole warps %d and %d; want %+v", u, to[i], got, e2[i], w2[i], want)
		}
	}
}

// tableAnswer is answerOf without the sum, which has no order, and without fields that are not
// queried.
func tableAnswer(g *graph.Weighted[uint32], u, v uint32) answer {
	a := answerOf(g, u, v)
	if a.exists, a.sum = a.exists&1, 0; a.degree > 0 {
		for _, x := range g.Neighbors(u) {
			a.sum += uint64(x)*uint64(x) + 1
		}
	}
	return a
}

// tableHistory queries a graph with tables of one slab, chains and many base slabs, with tombstones
// and moved tables among them.
func tableHistory(t testing.TB, dev device.Device, directed bool, hub int) {
	t.Helper()
	ctx, s, r := t.Context(), devicetest.NewStream(t, dev), rand.New(rand.NewPCG(3, 4))
	g, err := slab.NewWeightedGraph[uint32](dev, &slab.GraphOptions{Directed: directed, MaxLoad: 2, MaxTombstones: -1, Seed: 1})
	must(t, err)
	k, err := OpenTables(dev, 4)
	must(t, err)
	asked(t, s, k, g, r)
	for round := range 3 {
		var from, to, weights []uint32
		add := func(u, v int) {
			from, to, weights = append(from, uint32(u)), append(to, uint32(v)), append(weights, r.Uint32())
		}
		for v := range hub << round {
			add(7, v+3)
		}
		for range 2 * vertices {
			add(r.IntN(vertices), r.IntN(vertices))
		}
		_, err := g.Insert(ctx, from, to, weights, nil)
		must(t, err)
		_, err = g.Delete(ctx, from[:hub/2], to[:hub/2], nil)
		must(t, err)
		asked(t, s, k, g, r)
	}
	must(t, g.Close())
}

// User kernels find the contents of tables, under schedules, too.
func TestGraphRef(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for i, o := range []*sim.Options{{Arch: 80}, {}, sim.Schedule(1), sim.Schedule(2)} {
		tableHistory(t, devicetest.Checked(t, devicetest.OpenSim(t, o)), i%2 == 0, 70)
	}
	if dev := devicetest.Open(t); dev.Properties().Kind == device.CUDA {
		tableHistory(t, dev, true, 100_000)
	}
}

// A graph without weights has the same neighbors, and Sum iterates over all. A kernel for weights
// traps.
func TestTableSum(t *testing.T) {
	dev := devicetest.OpenSim(t, nil)
	if real := devicetest.Open(t); real.Properties().Kind == device.CUDA {
		dev = real
	}
	s, ctx := devicetest.NewStream(t, dev), t.Context()
	g, err := slab.NewGraph(dev, nil)
	must(t, err)
	_, err = g.Insert(ctx, []uint32{1, 2, 1}, []uint32{2, 3, 500}, nil)
	must(t, err)
	k, err := OpenTables(dev, 0)
	must(t, err)
	sums := devicetest.Upload(t, s, make([]uint64, 2))
	must(t, k.Sum(ctx, s, g, sums, 3))
	if got := devicetest.Download(t, s, sums); got[0] != 3*(1+2+2+3+1+500) || got[1] != 0 {
		t.Errorf("%v, want %d and no weights", got, 3*509)
	}
	must(t, g.Close())
	if err := g.View(ctx, s, nil); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("View of a closed graph: %v", err)
	}
	host, err := slab.NewGraph(devicetest.OpenCPU(t, 1), nil)
	must(t, err)
	if err := host.View(ctx, devicetest.NewStream(t, host.Device()), nil); !errors.Is(err, device.ErrNoKernels) {
		t.Errorf("on a CPU: %v", err)
	}
	must(t, host.Close())
	closedDevice, err := sim.Open(nil)
	must(t, err)
	g, err = slab.NewGraph(closedDevice, nil)
	must(t, err)
	if k, err = OpenTables(closedDevice, 4); err != nil {
		t.Fatal(err)
	}
	stream, err := closedDevice.NewStream()
	must(t, err)
	to, err := device.Make[uint64](closedDevice, 2)
	must(t, err)
	if err := errors.Join(k.Sum(ctx, stream, g, to, 1), stream.Sync(ctx)); !errors.Is(err, device.ErrLost) {
		t.Errorf("a kernel for weights that reads a graph without: %v", err)
	}
	closedDevice.Close() // with all of its memory
}
