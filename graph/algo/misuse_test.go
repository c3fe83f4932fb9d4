package algo

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/graph"
)

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// smallGraph returns a path of three vertices.
func smallGraph(t *testing.T) *graph.CSR {
	t.Helper()
	g, err := graph.Build(t.Context(), devicetest.OpenCPU(t, 1), graph.Edges{From: []uint32{0, 1}, To: []uint32{1, 2}}, nil)
	must(t, err)
	return g
}

// TestWithoutDevice checks that every algorithm refuses a nil device.
func TestWithoutDevice(t *testing.T) {
	ctx, g := t.Context(), smallGraph(t)
	n := make([]uint32, 3)
	check := func(name string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	all(ctx, nil, g, func(name string, run func() error) { check(name, run()) })
	_, err := Triangles(ctx, nil, g)
	check("Triangles", err)
	_, err = Sample(ctx, nil, g, n, 1, n, nil)
	check("Sample", err)
	_, err = NewConnected(ctx, nil, g)
	check("Connected", err)
	_, err = NewRanking(ctx, nil, g, nil)
	check("Ranking", err)
}

// TestFreedGraphs checks that all algorithms refuse a freed graph on a device, and a column on
// another device.
func TestFreedGraphs(t *testing.T) {
	for _, open := range []func() device.Device{
		func() device.Device { return devicetest.OpenCPU(t, 1) }, func() device.Device { return devicetest.OpenSim(t, &sim.Options{}) },
	} {
		dev := open()
		ctx, s := t.Context(), devicetest.NewStream(t, dev)
		g := graph.NewWeighted(smallGraph(t), []float32{1, 2, 3, 4})
		d, err := g.Upload(s)
		must(t, err)
		must(t, errors.Join(s.Sync(ctx), d.Free()))
		words, wide, floats := devicetest.Upload(t, s, make([]uint32, 3)), devicetest.Upload(t, s, make([]uint64, 3)), devicetest.Upload(t, s, make([]float64, 3))
		for name, run := range map[string]func() error{
			"PageRank":   func() error { _, err := PageRankOn(ctx, s, d.DeviceCSR, wide, nil); return err },
			"BFS":        func() error { _, err := BFSOn(ctx, s, d.DeviceCSR, 0, words); return err },
			"Components": func() error { _, err := ComponentsOn(ctx, s, d.DeviceCSR, words); return err },
			"KCore":      func() error { _, err := KCoreOn(ctx, s, d.DeviceCSR, words); return err },
			"SSSP":       func() error { _, err := SSSPOn(ctx, s, d, 0, floats); return err },
			"Triangles":  func() error { _, err := TrianglesOn(ctx, s, d.DeviceCSR); return err },
			"Sample":     func() error { _, err := SampleOn(ctx, s, d.DeviceCSR, words, 1, words, nil); return err },
		} {
			if err := run(); !errors.Is(err, device.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestTrianglesOfOnElsewhere checks that lists of edges must lie on the device of the graph.
func TestTrianglesOfOnElsewhere(t *testing.T) {
	ctx, dev, host := t.Context(), kernelDevice(t), devicetest.OpenCPU(t, 1)
	g, err := graph.New(dev, nil)
	must(t, err)
	s := devicetest.NewStream(t, dev)
	column, err := device.Make[uint32](dev, 1)
	must(t, err)
	elsewhere, err := device.Make[uint32](host, 1)
	must(t, err)
	for _, ends := range [][2]device.Slice[uint32]{{column, elsewhere}, {elsewhere, column}} {
		if _, err := TrianglesOfOn(ctx, s, g, ends[0], ends[1]); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "another device") {
			t.Errorf("edges of another device: %v", err)
		}
	}
	mask, err := device.Make[bool](host, 1)
	must(t, err)
	if _, err := TrianglesOfOn(ctx, s, g, column, column, mask); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "another device") {
		t.Errorf("which edges count, of another device: %v", err)
	}
	if _, err := TrianglesOfOn(ctx, nil, g, column, column); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("no stream: %v", err)
	}
	must(t, errors.Join(column.Free(), elsewhere.Free(), mask.Free(), g.Close()))
}

// TestSampleOverflows checks that an empty slice is refused if the number of elements overflows to
// 0.
func TestSampleOverflows(t *testing.T) {
	s := devicetest.NewStream(t, kernelDevice(t))
	d, err := smallGraph(t).Upload(s)
	must(t, err)
	vertices := devicetest.Upload(t, s, make([]uint32, 4))
	for _, fanout := range []int{1 << 62, -1 << 62, -1} {
		if !panics(func() { SampleOn(t.Context(), s, d, vertices, fanout, device.Slice[uint32]{}, nil) }) {
			t.Errorf("fan-out %d", fanout)
		}
	}
	must(t, errors.Join(s.Sync(t.Context()), d.Free()))
}

// TestVerticesOutOfRange checks that one wrong vertex number does not allocate memory for all
// smaller numbers.
func TestVerticesOutOfRange(t *testing.T) {
	ctx, host := t.Context(), devicetest.OpenCPU(t, 1)
	c, err := NewConnected(ctx, host, smallGraph(t))
	must(t, err)
	bad := graph.Edges{From: []uint32{2, 0}, To: []uint32{3, 1<<32 - 1}}
	if err := c.Insert(ctx, bad); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "edge 1 from 0 to 4294967295") {
		t.Errorf("connected: %v", err)
	}
	if c.Vertices() != 3 || c.Count() != 1 {
		t.Errorf("%d vertices, %d components; nothing was to be changed", c.Vertices(), c.Count())
	}
	r, err := NewRanking(ctx, host, smallGraph(t), nil)
	must(t, err)
	g, err := graph.New(host, nil)
	must(t, err)
	if _, err := r.Update(ctx, g, bad, graph.Edges{}); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "edge 1 from 0 to 4294967295") {
		t.Errorf("ranking: %v", err)
	}
	if r.Vertices() != 3 {
		t.Errorf("%d vertices; there were 3", r.Vertices())
	}
	must(t, g.Close())
}

// TestConnectedVertices checks that all vertices of a list exist, with or without edges.
func TestConnectedVertices(t *testing.T) {
	ctx := t.Context()
	c, err := NewConnected(ctx, devicetest.OpenCPU(t, 1), smallGraph(t))
	must(t, err)
	must(t, c.Insert(ctx, graph.Edges{Vertices: 7, From: []uint32{4}, To: []uint32{5}}))
	if c.Vertices() != 7 || c.Count() != 4 {
		t.Errorf("%d vertices, %d components; want 7 and 4", c.Vertices(), c.Count())
	}
	if err := c.Insert(ctx, graph.Edges{Vertices: -1}); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("-1 vertices: %v", err)
	}
}

// TestKCoreAfterErrors checks that the result is 0 after an error.
func TestKCoreAfterErrors(t *testing.T) {
	dev := kernelDevice(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s := devicetest.NewStream(t, dev)
	d, err := smallGraph(t).Upload(s)
	must(t, err)
	cores := devicetest.Upload(t, s, make([]uint32, 3))
	if largest, err := KCoreOn(ended, s, d, cores); largest != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", largest, err)
	}
	must(t, errors.Join(s.Sync(t.Context()), d.Free()))
}
