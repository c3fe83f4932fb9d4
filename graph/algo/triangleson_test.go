package algo

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
)

// shuffled returns a copy of a graph with unsorted rows.
func shuffled(t *testing.T, g *graph.CSR) *graph.CSR {
	t.Helper()
	targets := slices.Clone(g.Targets())
	r := rand.New(rand.NewPCG(5, 5))
	for v := range g.Vertices() {
		row := targets[g.Offsets()[v]:g.Offsets()[v+1]]
		r.Shuffle(len(row), func(i, j int) { row[i], row[j] = row[j], row[i] })
	}
	s, err := graph.NewCSR(g.Offsets(), targets, g.Directed())
	must(t, err)
	return s
}

// TestTrianglesOnKernels checks that kernels and a CPU yield the same number of triangles and the
// same oriented graph. The graphs include directed ones, loops, parallel edges and unsorted rows.
func TestTrianglesOnKernels(t *testing.T) {
	onKernels(t, func(t *testing.T, dev, host device.Device, g *graph.CSR) {
		for _, g := range []*graph.CSR{g, shuffled(t, g)} {
			want, err := Triangles(t.Context(), host, g)
			must(t, err)
			got, err := Triangles(t.Context(), dev, g)
			must(t, err)
			if got != want {
				t.Errorf("sorted=%v: %d triangles, want %d", g.Sorted(), got, want)
			}
			view, err := g.Oriented(t.Context(), host)
			must(t, err)
			oriented, err := g.Oriented(t.Context(), dev)
			must(t, err)
			if !slices.Equal(oriented.Offsets(), view.Offsets()) || !slices.Equal(oriented.Targets(), view.Targets()) || oriented.Simple() != view.Simple() || oriented.Directed() != view.Directed() {
				t.Errorf("sorted=%v: the views differ", g.Sorted())
			}
		}
	})
}

// TestTrianglesOnHost checks TrianglesOn with a graph on a host device.
func TestTrianglesOnHost(t *testing.T) {
	host := devicetest.OpenCPU(t, 2)
	s := devicetest.NewStream(t, host)
	g, err := graph.Build(t.Context(), host, shapes()[6].Edges, nil)
	must(t, err)
	uploaded, err := g.Upload(s)
	must(t, err)
	if n, err := TrianglesOn(t.Context(), s, uploaded); err != nil || n != 40*39*38/6 {
		t.Errorf("%d triangles of 40 vertices that are all neighbors, %v", n, err)
	}
	view, err := uploaded.Oriented(t.Context(), s)
	must(t, err)
	if view.Arcs() != 40*39/2 {
		t.Errorf("%d arcs of the view", view.Arcs())
	}
	must(t, errors.Join(view.Free(), uploaded.Free()))
	c, err := graph.New(host, nil)
	must(t, err)
	defer c.Close()
	none := device.Slice[uint32]{}
	if _, err := TrianglesOfOn(t.Context(), s, c, none, none); !errors.Is(err, device.ErrNoKernels) {
		t.Errorf("kernels on a CPU: %v", err)
	}
}

// TestTrianglesFailOnKernels checks that invalid graphs are refused, and that failures leak
// nothing.
func TestTrianglesFailOnKernels(t *testing.T) {
	kernelDevice(t)
	dev, host := devicetest.Checked(t, devicetest.OpenSim(t, nil)), devicetest.OpenCPU(t, 1)
	e := shapes()[6].Edges
	g, err := graph.Build(t.Context(), host, e, &graph.Options{Directed: true})
	must(t, err)
	c, err := graph.New(dev, nil)
	must(t, err)
	defer c.Close()
	_, err = c.Insert(t.Context(), e.From, e.To, nil)
	must(t, err)
	directed, err := graph.New(dev, &graph.Options{Directed: true})
	must(t, err)
	defer directed.Close()
	if _, err := TrianglesOf(t.Context(), dev, directed, e); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("of a directed graph: %v", err)
	}
	if _, err := TrianglesOf(t.Context(), dev, struct{ Reader }{c}, e); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("of a graph that kernels cannot read: %v", err)
	}
	for name, call := range map[string]func(context.Context) error{
		"Triangles":   func(ctx context.Context) error { _, err := Triangles(ctx, dev, g); return err },
		"Oriented":    func(ctx context.Context) error { _, err := g.Oriented(ctx, dev); return err },
		"TrianglesOf": func(ctx context.Context) error { _, err := TrianglesOf(ctx, dev, c, e); return err },
	} {
		must(t, call(t.Context()))
		leavesNothing(t, dev, name, call)
	}
}

// leavesNothing runs a call with each operation of the device failing, and with its context ending
// at each point. The call must leak nothing.
func leavesNothing(t *testing.T, dev device.Device, name string, call func(context.Context) error) {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	before := devicetest.Live(dev)
	if err := call(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("%s with an ended context: %v", name, err)
	}
	if after := devicetest.Live(dev); after != before {
		t.Errorf("%s with an ended context leaves %+v, before there was %+v", name, after, before)
	}
	devicetest.FailEach(t, dev, name, func() error { return call(t.Context()) })
}
