package algo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/graph"
)

// kernelDevice returns the device of the environment, or a simulated GPU if that device has no
// kernels.
func kernelDevice(t *testing.T) device.Device {
	t.Helper()
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.Open(t)
	if isHost(dev) {
		dev = devicetest.OpenSim(t, &sim.Options{})
	}
	return dev
}

// onKernels runs a test on all shapes, on a device with kernels.
func onKernels(t *testing.T, test func(t *testing.T, dev, host device.Device, g *graph.CSR)) {
	dev, host := kernelDevice(t), devicetest.OpenCPU(t, 2)
	for _, s := range shapes() {
		for _, o := range []graph.Options{{}, {Directed: true, SelfLoops: true}, {SelfLoops: true, Multi: true}} {
			t.Run(fmt.Sprintf("%s/directed=%v/multi=%v", s.name, o.Directed, o.Multi), func(t *testing.T) {
				g, err := graph.Build(t.Context(), host, s.Edges, &o)
				must(t, err)
				test(t, dev, host, g)
			})
		}
	}
}

// TestPageRankOnKernels checks that ranks of a device with kernels equal ranks of a CPU to the bit,
// after the same number of iterations.
func TestPageRankOnKernels(t *testing.T) {
	n := 0
	onKernels(t, func(t *testing.T, dev, host device.Device, g *graph.CSR) {
		n++
		o := []PageRankOptions{{Tolerance: 1e-4}, {Iterations: 11, Tolerance: -1}, {Damping: 0.5, Warm: true}, {Tolerance: 100}}[n%4]
		got, want := make([]uint64, g.Vertices()), make([]uint64, g.Vertices())
		for v := range want {
			got[v] = uint64(v) * (RankOne / uint64(len(want)*len(want)))
			want[v] = got[v]
		}
		expected, err := PageRank(t.Context(), host, g, want, &o)
		must(t, err)
		result, err := PageRank(t.Context(), dev, g, got, &o)
		must(t, err)
		if result != expected || !slices.Equal(got, want) {
			t.Fatalf("%+v: %+v, want %+v; ranks are the same: %v", o, result, expected, slices.Equal(got, want))
		}
	})
}

func TestBFSOnKernels(t *testing.T) {
	onKernels(t, func(t *testing.T, dev, host device.Device, g *graph.CSR) {
		for _, source := range []int{0, g.Vertices() / 2, g.Vertices() - 1} {
			if source < 0 || source >= g.Vertices() {
				continue
			}
			got, want := make([]uint32, g.Vertices()), make([]uint32, g.Vertices())
			expected, err := BFS(t.Context(), host, g, uint32(source), want)
			must(t, err)
			levels, err := BFS(t.Context(), dev, g, uint32(source), got)
			must(t, err)
			if !slices.Equal(levels, expected) || !slices.Equal(got, want) {
				t.Fatalf("from %d: levels %v, want %v; depths are the same: %v", source, levels, expected, slices.Equal(got, want))
			}
		}
	})
}

func TestComponentsOnKernels(t *testing.T) {
	onKernels(t, func(t *testing.T, dev, host device.Device, g *graph.CSR) {
		got, want := make([]uint32, g.Vertices()), make([]uint32, g.Vertices())
		expected, err := Components(t.Context(), host, g, want)
		must(t, err)
		count, err := Components(t.Context(), dev, g, got)
		must(t, err)
		if count != expected || !slices.Equal(got, want) {
			t.Fatalf("%d components, want %d; labels are the same: %v", count, expected, slices.Equal(got, want))
		}
	})
}

func TestKCoreOnKernels(t *testing.T) {
	onKernels(t, func(t *testing.T, dev, host device.Device, g *graph.CSR) {
		if g.Directed() {
			if _, err := KCore(t.Context(), dev, g, make([]uint32, g.Vertices())); !errors.Is(err, device.ErrInvalid) {
				t.Fatalf("a directed graph: %v", err)
			}
			return
		}
		got, want := make([]uint32, g.Vertices()), make([]uint32, g.Vertices())
		expected, err := KCore(t.Context(), host, g, want)
		must(t, err)
		largest, err := KCore(t.Context(), dev, g, got)
		must(t, err)
		if largest != expected || !slices.Equal(got, want) {
			t.Fatalf("cores up to %d, want %d; they are the same: %v", largest, expected, slices.Equal(got, want))
		}
	})
}

// sameDistances compares distances on a device and a host, for weights of one type.
func sameDistances[W graph.Weight, D Distance](t *testing.T, dev, host device.Device, g *graph.CSR, weight func(i int) W) {
	t.Helper()
	weights := make([]W, g.Arcs())
	for i := range weights {
		weights[i] = weight(i)
	}
	w := graph.NewWeighted(g, weights)
	got, want := make([]D, g.Vertices()), make([]D, g.Vertices())
	source := uint32(g.Vertices() / 2)
	expected, err := SSSP(t.Context(), host, w, source, want)
	must(t, err)
	reached, err := SSSP(t.Context(), dev, w, source, got)
	must(t, err)
	if reached != expected || !slices.Equal(got, want) {
		t.Fatalf("%T, %T: %d reached, want %d; distances are the same: %v", weights, got, reached, expected, slices.Equal(got, want))
	}
}

func TestSSSPOnKernels(t *testing.T) {
	n := 0
	onKernels(t, func(t *testing.T, dev, host device.Device, g *graph.CSR) {
		if g.Vertices() == 0 {
			return
		}
		n++
		switch n % 6 { // all types of weights, each on some graphs
		case 0:
			sameDistances[uint32, uint64](t, dev, host, g, func(i int) uint32 { return uint32(i * 7919 % 100) })
			sameDistances[uint64, float64](t, dev, host, g, func(i int) uint64 { return uint64(i*7919%100)<<40 + 1 })
		case 1:
			sameDistances[uint64, uint64](t, dev, host, g, func(i int) uint64 { return uint64(i * 7919 % 100 << 30) })
		case 2:
			sameDistances[int32, uint64](t, dev, host, g, func(i int) int32 { return int32(i * 7919 % 1000) })
			sameDistances[int64, float64](t, dev, host, g, func(i int) int64 { return int64(i%5) << 50 })
		case 3:
			sameDistances[float32, float64](t, dev, host, g, func(i int) float32 { return float32(i*7919%1000) / 7 })
		case 4:
			sameDistances[float64, float64](t, dev, host, g, func(i int) float64 { return math.Sqrt(float64(i * 7919 % 1000)) })
		case 5:
			sameDistances[uint32, uint64](t, dev, host, g, func(int) uint32 { return 0 })
			sameDistances[float64, float64](t, dev, host, g, func(i int) float64 { return []float64{1, math.Inf(1), 0.1}[i%3] })
		}
	})
}

// TestErrorsOnKernels checks that kernels refuse the same arguments as a CPU, with the same error
// text.
func TestErrorsOnKernels(t *testing.T) {
	ctx, dev, host := t.Context(), kernelDevice(t), devicetest.OpenCPU(t, 1)
	g, err := graph.Build(ctx, host, graph.Edges{From: []uint32{0, 1, 2}, To: []uint32{1, 2, 3}}, &graph.Options{Directed: true})
	must(t, err)
	same := func(name string, run func(dev device.Device) error) {
		t.Helper()
		got, want := run(dev), run(host)
		if got == nil || want == nil || got.Error() != want.Error() || !errors.Is(got, device.ErrInvalid) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, weights := range [][]float64{{1, -1, 2}, {1, 2, math.NaN()}, {-3, -2, -1}} {
		same("weights", func(dev device.Device) error {
			_, err := SSSP(ctx, dev, graph.NewWeighted(g, weights), 0, make([]float64, 4))
			return err
		})
	}
	same("floats", func(dev device.Device) error {
		_, err := SSSP(ctx, dev, graph.NewWeighted(g, make([]float32, 3)), 0, make([]uint64, 4))
		return err
	})
	same("too long", func(dev device.Device) error {
		_, err := SSSP(ctx, dev, graph.NewWeighted(g, []uint64{1, 1 << 62, 5}), 0, make([]uint64, 4))
		return err
	})
	same("source", func(dev device.Device) error {
		_, err := BFS(ctx, dev, g, 4, make([]uint32, 4))
		return err
	})
	same("cores", func(dev device.Device) error {
		_, err := KCore(ctx, dev, g, make([]uint32, 4))
		return err
	})
	same("options", func(dev device.Device) error {
		_, err := PageRank(ctx, dev, g, make([]uint64, 4), &PageRankOptions{Damping: 2})
		return err
	})
	s, other := devicetest.NewStream(t, dev), devicetest.NewStream(t, host)
	d, err := g.Upload(s)
	must(t, err)
	column, err := device.Make[uint32](host, 4)
	must(t, err)
	if _, err := BFSOn(ctx, s, d, 0, column); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "another device") {
		t.Errorf("a column elsewhere: %v", err)
	}
	if _, err := ComponentsOn(ctx, other, d, column); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "stream") {
		t.Errorf("another stream: %v", err)
	}
	must(t, errors.Join(s.Sync(ctx), d.Free(), column.Free()))
}

// all passes each algorithm on a device to each, as a function that returns its error.
func all(ctx context.Context, dev device.Device, g *graph.CSR, each func(name string, run func() error)) {
	n := g.Vertices()
	each("PageRank", func() error {
		_, err := PageRank(ctx, dev, g, make([]uint64, n), &PageRankOptions{Iterations: 2})
		return err
	})
	each("BFS", func() error { _, err := BFS(ctx, dev, g, 0, make([]uint32, n)); return err })
	each("Components", func() error { _, err := Components(ctx, dev, g, make([]uint32, n)); return err })
	each("SSSP", func() error {
		_, err := SSSP(ctx, dev, graph.NewWeighted(g, make([]uint32, g.Arcs())), 0, make([]uint64, n))
		return err
	})
	if !g.Directed() {
		each("KCore", func() error { _, err := KCore(ctx, dev, g, make([]uint32, n)); return err })
	}
}

// ending is a context that ends after a number of calls.
type ending struct {
	context.Context
	left atomic.Int64
}

func (e *ending) Err() error {
	if e.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

func (e *ending) Done() <-chan struct{} {
	c := make(chan struct{})
	if e.Err() != nil {
		close(c)
	}
	return c
}

// TestEndingOnKernels checks that a context that ends at any point is an error and leaks nothing.
func TestEndingOnKernels(t *testing.T) {
	dev, host := kernelDevice(t), devicetest.OpenCPU(t, 1)
	g, err := graph.Build(t.Context(), host, shapes()[4].Edges, nil) // a path: many rounds
	must(t, err)
	names := []string{"PageRank", "BFS", "Components", "SSSP", "KCore"}
	for i, name := range names {
		before, ends := devicetest.Live(dev), 0
		for n := int64(0); ; n += 1 + n/4 {
			ctx := &ending{Context: t.Context()}
			ctx.left.Store(n)
			var err error
			at := 0
			all(ctx, dev, g, func(_ string, run func() error) {
				if at == i {
					err = run()
				}
				at++
			})
			if live := devicetest.Live(dev); live != before {
				t.Fatalf("%s, ended after %d questions: left %+v, before %+v", name, n, live, before)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%s, ended after %d questions: %v", name, n, err)
			}
			ends++
		}
		if ends < 3 {
			t.Errorf("%s looks at its context %d times", name, ends)
		}
	}
}

// TestFailuresOnKernels checks that an ended context and a lack of memory at any point are errors
// and leak nothing.
func TestFailuresOnKernels(t *testing.T) {
	dev, host := kernelDevice(t), devicetest.OpenCPU(t, 1)
	e := graph.Edges{Vertices: 40}
	for i := range uint32(60) {
		e.From, e.To = append(e.From, i*7%40), append(e.To, i*i%40)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, o := range []graph.Options{{SelfLoops: true}, {Directed: true}} {
		g, err := graph.Build(t.Context(), host, e, &o)
		must(t, err)
		all(ended, dev, g, func(name string, run func() error) {
			if err := run(); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		})
		all(t.Context(), dev, g, func(name string, run func() error) {
			devicetest.FailEach(t, dev, name, run)
		})
	}
}
