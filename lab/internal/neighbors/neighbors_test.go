package neighbors

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/gpu"
)

// lender is a graph or a snapshot.
type lender interface {
	View(context.Context, *device.Stream, func(graph.Ref) error) error
}

// rig is a graph with kernels that read it.
type rig[W uint32 | uint64] struct {
	testing.TB
	dev device.Device
	s   *device.Stream
	r   *rand.Rand
	g   *graph.WeightedGraph[W]
	k   *Kernels
}

func newRig[W uint32 | uint64](t testing.TB, dev device.Device, o graph.Options) *rig[W] {
	t.Helper()
	g, err := graph.NewWeightedGraph[W](dev, &o)
	must(t, err)
	k, err := Open(dev, int(unsafe.Sizeof(W(0))))
	must(t, err)
	return &rig[W]{t, dev, devicetest.NewStream(t, dev), rand.New(rand.NewPCG(3, 4)), g, k}
}

// vertices exceeds all vertices with edges.
const vertices = 140

// insert inserts edges of a hub with many neighbors, of some vertices with tens and of many with
// few.
func (x *rig[W]) insert(hub int) {
	x.Helper()
	var from, to []uint32
	var weights []W
	add := func(u, v int) {
		from, to, weights = append(from, uint32(u)), append(to, uint32(v)), append(weights, W(x.r.Uint64()>>12))
	}
	for v := range hub {
		add(7, v+3)
	}
	for u := range 9 {
		for range 10 + x.r.IntN(60) {
			add(11*u, x.r.IntN(vertices))
		}
	}
	for range vertices {
		add(x.r.IntN(vertices), x.r.IntN(vertices))
	}
	_, err := x.g.Insert(x.Context(), from, to, weights, nil)
	must(x, err)
}

// same runs kernels on a View and compares the results with rows.
func (x *rig[W]) same(of lender, want *graph.Weighted[W]) {
	x.Helper()
	ctx := x.Context()
	var from, to []uint32
	for u := range uint32(vertices + 2) {
		from, to = append(from, u, u, 1<<32-1), append(to, uint32(x.r.IntN(vertices)), u*7, u)
		if int(u) < want.Vertices() && want.Degree(u) > 0 {
			from, to = append(from, u), append(to, want.Neighbors(u)[x.r.IntN(want.Degree(u))])
		}
	}
	n := len(from)
	fromOn, toOn := devicetest.Upload(x, x.s, from), devicetest.Upload(x, x.s, to)
	degrees, exists := devicetest.Upload(x, x.s, make([]uint32, n)), devicetest.Upload(x, x.s, make([]uint8, n))
	weights, sums, tiles := devicetest.Upload(x, x.s, make([]uint64, n)), devicetest.Upload(x, x.s, make([]uint64, n)), devicetest.Upload(x, x.s, make([]uint64, n))
	total := devicetest.Upload(x, x.s, make([]uint64, 2))
	must(x, of.View(ctx, x.s, func(r graph.Ref) error {
		p := askParams{
			ref: r, from: fromOn.Ptr(), to: toOn.Ptr(), degrees: degrees.Ptr(), exists: exists.Ptr(), weights: weights.Ptr(),
			sums: sums.Ptr(), byTiles: tiles.Ptr(), n: uint32(n),
		}
		all := sumParams{ref: r, neighbors: total.Ptr(), weights: total.Ptr() + 8}
		return errors.Join(
			device.Launch(x.s, x.k.ask, gpu.Grid(n), gpu.Block, &p),
			device.Launch(x.s, x.k.tiles, gpu.Grid(8*n), gpu.Block, &p),
			device.Launch(x.s, x.k.sum, device.Dim{X: 2}, gpu.Block, &all),
		)
	}))
	var sum, weight uint64
	for _, v := range want.Targets() {
		sum += uint64(v)
	}
	for _, w := range want.AllWeights() {
		weight += uint64(w)
	}
	if got := devicetest.Download(x, x.s, total); got[0] != sum || got[1] != weight {
		x.Fatalf("all neighbors and weights add up to %v, want %d and %d", got, sum, weight)
	}
	d, e, w := devicetest.Download(x, x.s, degrees), devicetest.Download(x, x.s, exists), devicetest.Download(x, x.s, weights)
	ordered, any := devicetest.Download(x, x.s, sums), devicetest.Download(x, x.s, tiles)
	for i, u := range from {
		got, want := answer{d[i], e[i], w[i], ordered[i], any[i]}, answerOf(want, u, to[i])
		// Without neighbors it may or may not exist.
		if got.exists &^= 2 * btoi(want.degree == 0); got != want {
			x.Fatalf("vertex %d, edge to %d: %+v, want %+v", u, to[i], got, want)
		}
	}
}

// answer is the result for a vertex and an edge (twin: AskParams in neighbors.cu).
type answer struct {
	degree            uint32
	exists            uint8
	weight, sum, tile uint64
}

func answerOf[W uint32 | uint64](g *graph.Weighted[W], u, v uint32) (a answer) {
	if int(u) >= g.Vertices() || g.Degree(u) == 0 {
		return a
	}
	a.degree, a.exists = uint32(g.Degree(u)), 2
	for i, x := range g.Neighbors(u) {
		if x == v {
			a.exists, a.weight = 3, uint64(g.Weights(u)[i])
		}
		a.sum, a.tile = a.sum*3+uint64(x), a.tile+uint64(x)
	}
	return a
}

func btoi(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// history reads a graph that changes, and a snapshot.
func history[W uint32 | uint64](t testing.TB, dev device.Device, o graph.Options, hub int) {
	t.Helper()
	x, ctx := newRig[W](t, dev, o), t.Context()
	now := func() *graph.Weighted[W] {
		c, err := x.g.CSR(ctx)
		must(t, err)
		return c
	}
	x.same(x.g, now())
	x.insert(hub)
	old := now()
	x.same(x.g, old)
	s, err := x.g.Snapshot(ctx)
	must(t, err)
	_, err = x.g.DeleteVertices(ctx, []uint32{7, 22})
	must(t, err)
	x.insert(30)
	x.same(s, old)
	x.same(x.g, now())
	must(t, errors.Join(s.Close(), x.g.Close()))
	if err := s.View(ctx, x.s, func(graph.Ref) error { return nil }); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("View of a closed snapshot: %v", err)
	}
}

// User kernels find the contents of rows, of a graph and of a snapshot, under schedules, too.
func TestRef(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	all := []*sim.Options{{Arch: 80}, {}, sim.Schedule(1), sim.Schedule(2)}
	for _, o := range all {
		dev := devicetest.Checked(t, devicetest.OpenSim(t, o))
		history[uint32](t, dev, graph.Options{}, 300)
		history[uint64](t, dev, graph.Options{Directed: true, Multi: true, SelfLoops: true}, 90)
	}
	if dev := devicetest.Open(t); dev.Properties().Kind == device.CUDA {
		history[uint32](t, dev, graph.Options{SelfLoops: true}, 100_000)
		history[uint64](t, dev, graph.Options{Multi: true}, 300)
	}
}

// A graph without weights has the same neighbors, and Sum iterates over all.
func TestSum(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, nil)
	x, ctx := newRig[uint32](t, dev, graph.Options{}), t.Context()
	x.insert(280)
	c, err := x.g.CSR(ctx)
	must(t, err)
	g, err := graph.New(dev, nil)
	must(t, err)
	_, err = g.InsertCSR(ctx, c.CSR)
	must(t, err)
	k, err := Open(dev, 0)
	must(t, err)
	sums := devicetest.Upload(t, x.s, make([]uint64, 2))
	must(t, k.Sum(ctx, x.s, g, sums, 2))
	want := uint64(0)
	for _, v := range c.Targets() {
		want += uint64(v)
	}
	if got := devicetest.Download(t, x.s, sums); got[0] != 2*want || got[1] != 0 {
		t.Errorf("%v, want %d and no weights", got, 2*want)
	}
	must(t, errors.Join(g.Close(), x.g.Close()))
}

// A kernel for weights of another width traps, a CPU has no kernels, and streams must be of the
// graph's device.
func TestRefused(t *testing.T) {
	host := devicetest.OpenCPU(t, 1)
	g, err := graph.New(host, nil)
	must(t, err)
	defer g.Close()
	s, err := g.Snapshot(t.Context())
	must(t, err)
	defer s.Close()
	for _, of := range []lender{g, s} {
		if err := of.View(t.Context(), devicetest.NewStream(t, host), nil); !errors.Is(err, device.ErrNoKernels) {
			t.Errorf("on a CPU: %v", err)
		}
	}
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev, other := devicetest.OpenSim(t, nil), devicetest.OpenSim(t, nil)
	x := newRig[uint32](t, dev, graph.Options{})
	if err := x.g.View(t.Context(), devicetest.NewStream(t, other), nil); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("a stream of another device: %v", err)
	}
	must(t, x.g.Close())
	if err := x.g.View(t.Context(), x.s, nil); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("of a closed graph: %v", err)
	}
	closedDevice, err := sim.Open(nil)
	must(t, err)
	narrow, err := graph.NewWeightedGraph[uint32](closedDevice, nil)
	must(t, err)
	_, err = narrow.Insert(t.Context(), []uint32{1}, []uint32{2}, []uint32{3}, nil)
	must(t, err)
	k, err := Open(closedDevice, 8)
	must(t, err)
	stream, err := closedDevice.NewStream()
	must(t, err)
	sums, err := device.Make[uint64](closedDevice, 2)
	must(t, err)
	if err := errors.Join(k.Sum(t.Context(), stream, narrow.Graph, sums, 1), stream.Sync(t.Context())); !errors.Is(err, device.ErrLost) {
		t.Errorf("a kernel for weights of 64 bits that reads those of 32: %v", err)
	}
	closedDevice.Close() // with all of its memory
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
