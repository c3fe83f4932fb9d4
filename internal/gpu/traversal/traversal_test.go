package traversal

import (
	"context"
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/mutate"
)

// hostRows holds rows in host memory.
type hostRows struct {
	offsets  []uint64
	targets  []uint32
	directed bool
}

func (g *hostRows) vertices() int { return len(g.offsets) - 1 }

func (g *hostRows) row(v int) []uint32 { return g.targets[g.offsets[v]:g.offsets[v+1]] }

// rowsLike returns a graph of n vertices and about m arcs, with isolated vertices, a hub, self
// loops and duplicate edges.
func rowsLike(n, m int, directed bool, seed uint64) *hostRows {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	rows := make([][]uint32, n)
	for i := range m {
		u, v := r.IntN(n), r.IntN(n-n/3)
		switch {
		case i%3 == 0:
			u = n / 2 // a hub
		case u%4 == 3:
			u = v // isolated vertices, and self loops
		}
		rows[u] = append(rows[u], uint32(v))
		if !directed && u != v {
			rows[v] = append(rows[v], uint32(u))
		}
	}
	return hostRowsOf(rows, directed)
}

// pathOf returns a graph for a search level by level.
func pathOf(n int) *hostRows {
	rows := make([][]uint32, n)
	for v := range n - 1 {
		rows[v], rows[v+1] = append(rows[v], uint32(v+1)), append(rows[v+1], uint32(v))
	}
	return hostRowsOf(rows, false)
}

// evenOf returns a graph with nearly equal degrees.
func evenOf(n, m int) *hostRows {
	r := rand.New(rand.NewPCG(9, uint64(n)))
	rows := make([][]uint32, n)
	for range m {
		u, v := r.IntN(n), r.IntN(n)
		rows[u], rows[v] = append(rows[u], uint32(v)), append(rows[v], uint32(u))
	}
	return hostRowsOf(rows, false)
}

// layersOf returns a graph with a source and two layers around it. A vertex of the outer layer has
// many neighbors, and only the last of these is in the inner layer.
func layersOf(inner, outer int) (g *hostRows, source int) {
	rows := make([][]uint32, inner+outer+1)
	join := func(u, v int) { rows[u], rows[v] = append(rows[u], uint32(v)), append(rows[v], uint32(u)) }
	source = inner + outer
	for v := range outer {
		join(v, outer+v%inner)
		for u := range v {
			join(u, v)
		}
	}
	for v := range inner {
		join(source, outer+v)
		for u := range v {
			join(outer+u, outer+v)
		}
	}
	return hostRowsOf(rows, false), source
}

// sprayOf returns a graph in which one vertex leads to two thirds of the others. A few of these
// lead to some of the remaining vertices.
func sprayOf(n int) *hostRows {
	rows := make([][]uint32, n)
	for v := range n * 2 / 3 {
		rows[n/2] = append(rows[n/2], uint32(v))
		if v%70 == 1 {
			rows[v] = append(rows[v], uint32(v/2), uint32(n-1-v/3))
		}
	}
	return hostRowsOf(rows, true)
}

func hostRowsOf(rows [][]uint32, directed bool) *hostRows {
	g := &hostRows{offsets: []uint64{0}, directed: directed}
	for _, row := range rows {
		slices.Sort(row)
		g.targets = append(g.targets, row...)
		g.offsets = append(g.offsets, uint64(len(g.targets)))
	}
	return g
}

// trial is a graph on a device, and its kernels.
type trial struct {
	testing.TB
	k    *Kernels
	s    *device.Stream
	host *hostRows
	Graph
	free []func() error
}

func on(t testing.TB, dev device.Device, g *hostRows) *trial {
	t.Helper()
	k, err := Load(dev)
	must(t, err)
	s, err := dev.NewStream()
	must(t, err)
	x := &trial{TB: t, k: k, s: s, host: g, Graph: Graph{Vertices: g.vertices(), Arcs: len(g.targets), Directed: g.directed}}
	x.Offsets, x.Targets = column(x, g.offsets), column(x, g.targets)
	return x
}

func (x *trial) close() {
	x.Helper()
	must(x, x.s.Sync(context.Background()))
	for _, free := range x.free {
		must(x, free())
	}
	must(x, x.s.Close())
}

// column copies a column to the device.
func column[T device.Elem](x *trial, values []T) device.Ptr {
	x.Helper()
	d, err := device.Upload(x.s, values)
	must(x, err)
	x.free = append(x.free, d.Free)
	return d.Ptr()
}

// download returns a column of the device.
func download[T device.Elem](x *trial, n int, from device.Ptr) []T {
	x.Helper()
	to := make([]T, n)
	if n > 0 {
		must(x, x.s.CopyOut(context.Background(), device.Bytes(to), from))
	}
	return to
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ---- PageRank --------------------------------------------------------------

const rankOne = 1 << 62

// plainRanks computes ranks by plain iterations.
func plainRanks(g *hostRows, o Rank) (ranks []uint64, done int, change uint64) {
	n := uint64(g.vertices())
	ranks = slices.Repeat([]uint64{rankOne / n}, int(n))
	for done < o.Iterations {
		sums, dangling := make([]uint64, n), uint64(0)
		for v := range int(n) {
			row := g.row(v)
			if len(row) == 0 {
				dangling += ranks[v]
			}
			for _, u := range row {
				sums[u] += ranks[v] / uint64(len(row))
			}
		}
		change = 0
		for v := range ranks {
			followed, _ := bits.Mul64(sums[v]+dangling/n, o.Damping)
			change += max(o.Base+followed, ranks[v]) - min(o.Base+followed, ranks[v])
			ranks[v] = o.Base + followed
		}
		if done++; change <= o.Limit {
			break
		}
	}
	return ranks, done, change
}

func tryRanks(t testing.TB, dev device.Device, g *hostRows, iterations int, limit uint64) {
	t.Helper()
	x := on(t, dev, g)
	defer x.close()
	const damping = 6 << 61
	o := Rank{Damping: damping, Base: (rankOne - rankOne/8*6) / uint64(g.vertices()), Iterations: iterations, Limit: limit}
	into := x.Graph
	if g.directed {
		into.Offsets, into.Targets = column(x, make([]uint64, len(g.offsets))), column(x, make([]uint32, max(4, len(g.targets))))
		must(t, x.k.Transpose(context.Background(), x.s, x.Graph, into))
		x.turned(into)
	}
	ranks := column(x, make([]uint64, g.vertices()))
	want, expected, changed := plainRanks(g, o)
	done, change, err := x.k.PageRank(context.Background(), x.s, x.Graph, into, ranks, o)
	must(t, err)
	if got := download[uint64](x, g.vertices(), ranks); done != expected || change != changed || !slices.Equal(got, want) {
		t.Fatalf("%d vertices, %d arcs: %d iterations, the last changed %d, want %d, %d; ranks are the same: %v", x.Vertices, x.Arcs, done, change, expected, changed, slices.Equal(got, want))
	}
}

// turned compares a transposed graph with the expected one.
func (x *trial) turned(into Graph) {
	rows := make([][]uint32, x.Vertices)
	for v := range rows {
		for _, u := range x.host.row(v) {
			rows[u] = append(rows[u], uint32(v))
		}
	}
	want := hostRowsOf(rows, true)
	if !slices.Equal(download[uint64](x, len(want.offsets), into.Offsets), want.offsets) || !slices.Equal(download[uint32](x, len(want.targets), into.Targets), want.targets) {
		x.Fatalf("%d vertices, %d arcs: turned round, it is another graph", x.Vertices, x.Arcs)
	}
}

// ---- searches --------------------------------------------------------------

func trySearch(t testing.TB, dev device.Device, g *hostRows, source int) {
	t.Helper()
	x := on(t, dev, g)
	defer x.close()
	want, levels := slices.Repeat([]uint32{NoVertex}, g.vertices()), []int(nil)
	want[source] = 0
	for front := []int{source}; len(front) > 0; {
		levels = append(levels, len(front))
		var next []int
		for _, v := range front {
			for _, u := range g.row(v) {
				if want[u] == NoVertex {
					want[u] = want[v] + 1
					next = append(next, int(u))
				}
			}
		}
		front = next
	}
	depths := column(x, make([]uint32, g.vertices()))
	found, err := x.k.BFS(context.Background(), x.s, x.Graph, uint32(source), depths)
	must(t, err)
	if got := download[uint32](x, g.vertices(), depths); !slices.Equal(got, want) || !slices.Equal(found, levels) {
		t.Fatalf("%d vertices, %d arcs: levels %v, want %v; depths are the same: %v", x.Vertices, x.Arcs, found, levels, slices.Equal(got, want))
	}
}

func tryComponents(t testing.TB, dev device.Device, g *hostRows) {
	t.Helper()
	x := on(t, dev, g)
	defer x.close()
	want, expected := make([]uint32, g.vertices()), 0
	for v := range want {
		want[v] = uint32(v)
	}
	for changed := true; changed; {
		changed = false
		for v := range want {
			for _, u := range g.row(v) {
				if label := min(want[v], want[u]); want[v] != want[u] {
					want[v], want[u], changed = label, label, true
				}
			}
		}
	}
	for v, label := range want {
		if label == uint32(v) {
			expected++
		}
	}
	labels := column(x, make([]uint32, g.vertices()))
	count, err := x.k.Components(context.Background(), x.s, x.Graph, labels, func(sample []uint32) uint32 { return sample[0] })
	must(t, err)
	if got := download[uint32](x, g.vertices(), labels); count != expected || !slices.Equal(got, want) {
		t.Fatalf("%d vertices, %d arcs: %d components, want %d; labels are the same: %v", x.Vertices, x.Arcs, count, expected, slices.Equal(got, want))
	}
}

// ---- levels ----------------------------------------------------------------

// tryPaths tests integer weights.
func tryPaths(t testing.TB, dev device.Device, g *hostRows, largest uint32) {
	t.Helper()
	x := on(t, dev, g)
	defer x.close()
	weights, sum := make([]uint32, len(g.targets)), uint64(0)
	for i := range weights {
		weights[i] = uint32(i) * 7919 % (largest + 1)
		sum += uint64(weights[i])
	}
	source := uint32(g.vertices() / 2)
	want, expected := slices.Repeat([]uint64{math.MaxUint64}, g.vertices()), 0
	want[source] = 0
	for changed := true; changed; {
		changed = false
		for v, d := range want {
			for i, u := range g.row(v) {
				if d != math.MaxUint64 && d+uint64(weights[int(g.offsets[v])+i]) < want[u] {
					want[u], changed = d+uint64(weights[int(g.offsets[v])+i]), true
				}
			}
		}
	}
	for _, d := range want {
		if d != math.MaxUint64 {
			expected++
		}
	}
	w := Weights{Ptr: column(x, weights), Type: Uint32}
	bad, maxWeight, mean, err := x.k.CheckWeights(context.Background(), x.s, x.Graph, w)
	must(t, err)
	if exact := float64(sum) / float64(len(weights)); bad != -1 || maxWeight != float64(slices.Max(weights)) || math.Abs(mean-exact) > maxWeight/meanUnit {
		t.Fatalf("weights: bad %d, up to %v, mean %v, want -1, %v, %v", bad, maxWeight, mean, slices.Max(weights), exact)
	}
	distances := column(x, make([]uint64, g.vertices()))
	// many levels
	reached, err := x.k.SSSP(context.Background(), x.s, x.Graph, w, mean/20, source, false, distances)
	must(t, err)
	if got := download[uint64](x, g.vertices(), distances); reached != expected || !slices.Equal(got, want) {
		t.Fatalf("%d vertices, %d arcs: %d reached, want %d; distances are the same: %v", x.Vertices, x.Arcs, reached, expected, slices.Equal(got, want))
	}
}

// tryTypes finds the paths of one graph with weights of all types and distances of both types. The
// distances are the same numbers.
func tryTypes(t testing.TB, dev device.Device) {
	t.Helper()
	g := evenOf(40, 90)
	tryTypesOf[uint32](t, dev, g, Uint32)
	tryTypesOf[uint64](t, dev, g, Uint64)
	tryTypesOf[int32](t, dev, g, Int32)
	tryTypesOf[int64](t, dev, g, Int64)
	tryTypesOf[float32](t, dev, g, Float32)
	tryTypesOf[float64](t, dev, g, Float64)
}

func tryTypesOf[W uint32 | uint64 | int32 | int64 | float32 | float64](t testing.TB, dev device.Device, g *hostRows, kind WeightType) {
	t.Helper()
	x := on(t, dev, g)
	defer x.close()
	weights := make([]W, len(g.targets))
	for i := range weights {
		weights[i] = W(1 + i*7%5)
	}
	const far = math.MaxUint64
	want := slices.Repeat([]uint64{far}, g.vertices())
	want[3] = 0
	for range want { // this many rounds suffice
		for v, d := range want {
			for i, u := range g.row(v) {
				if d != far {
					want[u] = min(want[u], d+uint64(weights[int(g.offsets[v])+i]))
				}
			}
		}
	}
	distances, w := column(x, make([]uint64, g.vertices())), Weights{Ptr: column(x, weights), Type: kind}
	for _, floats := range []bool{false, true} {
		if !floats && kind >= Float32 {
			continue
		}
		_, err := x.k.SSSP(context.Background(), x.s, x.Graph, w, 1, 3, floats, distances)
		must(t, err)
		got := download[uint64](x, g.vertices(), distances)
		for v := range got {
			if d := math.Float64frombits(got[v]); floats && math.IsInf(d, 1) {
				got[v] = far
			} else if floats {
				got[v] = uint64(d)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%T, floats %v: distances %v, want %v", weights, floats, got, want)
		}
	}
}

// tryWeights checks weights of all types: one or two of a few thousand are bad.
func tryWeights(t testing.TB, dev device.Device) {
	t.Helper()
	tryWeightsOf(t, dev, Uint32, func(i int) uint32 { return uint32(i) }, nil)
	tryWeightsOf(t, dev, Uint64, func(i int) uint64 { return uint64(i) << 40 }, nil)
	tryWeightsOf(t, dev, Int32, func(i int) int32 { return int32(i) }, []int32{-1, math.MinInt32})
	tryWeightsOf(t, dev, Int64, func(i int) int64 { return int64(i) << 40 }, []int64{-1, math.MinInt64})
	tryWeightsOf(t, dev, Float32, func(i int) float32 { return float32(i) / 3 }, []float32{-0.5, float32(math.NaN()), float32(math.Inf(-1))})
	tryWeightsOf(t, dev, Float64, func(i int) float64 { return float64(i) / 3 }, []float64{-0.5, math.NaN(), math.Inf(-1)})
}

func tryWeightsOf[W uint32 | uint64 | int32 | int64 | float32 | float64](t testing.TB, dev device.Device, kind WeightType, weight func(int) W, bad []W) {
	t.Helper()
	x := on(t, dev, pathOf(3))
	defer x.close()
	weights, sum := make([]W, 1500), 0.
	for i := range weights {
		weights[i] = weight(i * 7 % 1500)
		sum += float64(weights[i])
	}
	of := x.Graph
	of.Arcs = len(weights)
	at, largest, mean, err := x.k.CheckWeights(context.Background(), x.s, of, Weights{Ptr: column(x, weights), Type: kind})
	must(t, err)
	if want, exact := float64(slices.Max(weights)), sum/1500; at != -1 || largest != want || math.Abs(mean-exact) > largest/meanUnit {
		t.Fatalf("%T: bad %d, up to %v, mean %v, want -1, %v, %v", weights, at, largest, mean, want, exact)
	}
	for _, w := range bad {
		weights[900], weights[1400] = w, w
		if at, _, _, err := x.k.CheckWeights(context.Background(), x.s, of, Weights{Ptr: column(x, weights), Type: kind}); err != nil || at != 900 {
			t.Fatalf("%T: %v is weight %d, %v, want 900", weights, w, at, err)
		}
	}
}

func tryCores(t testing.TB, dev device.Device, g *hostRows) {
	t.Helper()
	x := on(t, dev, g)
	defer x.close()
	want := make([]uint32, g.vertices())
	removed := make([]bool, g.vertices())
	degree := func(v int) (n uint32) {
		for _, u := range g.row(v) {
			if int(u) != v && !removed[u] {
				n++
			}
		}
		return n
	}
	expected := uint32(0)
	for left := g.vertices(); left > 0; expected++ {
		for changed := true; changed; {
			changed = false
			for v := range want {
				if !removed[v] && degree(v) <= expected {
					want[v], removed[v], changed = expected, true, true
					left--
				}
			}
		}
	}
	cores := column(x, make([]uint32, g.vertices()))
	largest, err := x.k.KCore(context.Background(), x.s, x.Graph, true, cores)
	must(t, err)
	if got := download[uint32](x, g.vertices(), cores); largest != expected-1 || !slices.Equal(got, want) {
		t.Fatalf("%d vertices, %d arcs: cores up to %d, want %d; they are the same: %v", x.Vertices, x.Arcs, largest, expected-1, slices.Equal(got, want))
	}
}

// ---- all -------------------------------------------------------------------

// TestSchedules runs kernelTests on the shipped kernels, and the other tests run them on broken
// ones.
var kernelTests = []mutate.KernelTest{
	{Name: "ranks", Run: func(t testing.TB, dev device.Device) {
		tryRanks(t, dev, rowsLike(70, 1700, false, 1), 3, 0)
		tryRanks(t, dev, rowsLike(300, 500, true, 2), 12, rankOne/1000)
		// iterations submitted after the last do nothing
		tryRanks(t, dev, rowsLike(60, 200, false, 3), 12, rankOne/2)
		tryRanks(t, dev, rowsLike(65, 1003, true, 4), 2, 0) // the last lane has only some arcs
	}},
	{Name: "search", Run: func(t testing.TB, dev device.Device) {
		trySearch(t, dev, rowsLike(290, 1200, false, 3), 145)
		trySearch(t, dev, rowsLike(300, 2400, true, 4), 150)
		trySearch(t, dev, pathOf(30), 7)
		trySearch(t, dev, evenOf(300, 700), 9)
		trySearch(t, dev, sprayOf(300), 150)
		g, source := layersOf(40, 60)
		trySearch(t, dev, g, source)
	}},
	{Name: "components", Run: func(t testing.TB, dev device.Device) {
		tryComponents(t, dev, rowsLike(600, 450, false, 5))
		tryComponents(t, dev, rowsLike(300, 400, true, 6))
		tryComponents(t, dev, pathOf(100))
	}},
	{Name: "paths", Run: func(t testing.TB, dev device.Device) {
		tryPaths(t, dev, rowsLike(300, 1200, false, 7), 100)
		tryPaths(t, dev, evenOf(600, 900), 9)
		tryPaths(t, dev, sprayOf(300), 40)
		tryPaths(t, dev, pathOf(20), 3)
		tryWeights(t, dev)
		tryTypes(t, dev)
	}},
	{Name: "cores", Run: func(t testing.TB, dev device.Device) {
		tryCores(t, dev, rowsLike(300, 1500, false, 8))
		tryCores(t, dev, pathOf(40))
		tryCores(t, dev, hostRowsOf(append(make([][]uint32, 200), []uint32{200, 201}, []uint32{200}), false))
	}},
}

// TestSmoke runs every kernel with few rows. Tools that check each memory access slow a device down
// a thousand times.
func TestSmoke(t *testing.T) {
	dev := devicetest.OpenGPU(t)
	for _, test := range kernelTests {
		t.Run(test.Name, func(t *testing.T) { test.Run(t, dev) })
	}
}

// Tiles begin and end anywhere in rows; a hub spans many tiles; isolated vertices lie between
// others.
func TestTiles(t *testing.T) {
	dev := devicetest.OpenGPU(t)
	for _, n := range []int{1, 2, 31, 33, 600} {
		for _, m := range []int{0, 1, 255, 256, 257, 3000} {
			g := rowsLike(n+3, m, m%2 == 0, uint64(n))
			tryRanks(t, dev, g, 2, 0)
			trySearch(t, dev, g, n/2)
			tryComponents(t, dev, g)
		}
	}
	tryRanks(t, dev, hostRowsOf(append(make([][]uint32, 5000), []uint32{0, 7, 4999}), true), 9, 0)
	tryRanks(t, dev, hostRowsOf([][]uint32{slices.Repeat([]uint32{0, 1}, 1500), {0}}, true), 9, 0)
}

// Kernels are correct under random schedules of lanes, warps and blocks, with weak memory. A data
// race is an error.
func TestSchedules(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	mutate.RunOnSim(t, kernelTests, 1, 90)
}

// Graphs too large for the kernels are rejected, and the end of a context ends a call.
func TestRefused(t *testing.T) {
	x := on(t, devicetest.OpenGPU(t), pathOf(9))
	defer x.close()
	ranks := column(x, make([]uint64, 9))
	large := x.Graph
	large.Arcs = MaxArcs + 1
	if _, err := x.k.BFS(t.Context(), x.s, large, 0, ranks); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("too many arcs: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := x.k.PageRank(ended, x.s, x.Graph, x.Graph, ranks, Rank{Iterations: 100}); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}

func TestNoKernels(t *testing.T) {
	if _, err := Load(devicetest.OpenCPU(t, 1)); !errors.Is(err, device.ErrNoKernels) {
		t.Errorf("on a CPU: %v", err)
	}
}

// The kernels of both architectures are the same, so one of them is interpreted.
func TestSameKernels(t *testing.T) { conformance.SameKernels(t, "traversal", "following") }
