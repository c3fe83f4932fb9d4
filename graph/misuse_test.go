package graph

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestCountsElsewhere checks that a counter on another device is refused before anything changes.
func TestCountsElsewhere(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		ctx, s := t.Context(), devicetest.NewStream(t, dev)
		g, err := NewWeightedGraph[uint32](dev, nil)
		must(t, err)
		_, err = g.Insert(ctx, []uint32{0, 1}, []uint32{1, 2}, []uint32{5, 6}, nil)
		must(t, err)
		host := devicetest.OpenCPU(t, 1)
		elsewhere, err := device.Make[uint64](host, 1)
		must(t, err)
		here := devicetest.Upload(t, s, []uint64{0})
		from, to := devicetest.Upload(t, s, []uint32{0, 4}), devicetest.Upload(t, s, []uint32{1, 5})
		weights, kinds := devicetest.Upload(t, s, []uint32{8, 9}), devicetest.Upload(t, s, []uint8{0, 1})
		none := device.Slice[bool]{}
		for name, run := range map[string]func(counts ...device.Slice[uint64]) error{
			"InsertOn": func(counts ...device.Slice[uint64]) error { return g.InsertOn(s, from, to, weights, none, counts...) },
			"DeleteOn": func(counts ...device.Slice[uint64]) error { return g.DeleteOn(s, from, to, none, counts...) },
			"ApplyOn": func(counts ...device.Slice[uint64]) error {
				return g.ApplyOn(s, kinds, from, to, weights, none, counts...)
			},
			"InsertVerticesOn": func(counts ...device.Slice[uint64]) error { return g.InsertVerticesOn(s, from, counts...) },
			"DeleteVerticesOn": func(counts ...device.Slice[uint64]) error { return g.DeleteVerticesOn(s, from, counts...) },
			"HasOn":            func(counts ...device.Slice[uint64]) error { return g.HasOn(s, from, to, none, counts...) },
			"WeightOn": func(counts ...device.Slice[uint64]) error {
				return g.WeightOn(s, from, to, weights, none, counts...)
			},
		} {
			for _, counts := range [][]device.Slice[uint64]{{elsewhere}, {here, here}} {
				if err := run(counts...); !errors.Is(err, device.ErrInvalid) {
					t.Errorf("%s with %d counts: %v", name, len(counts), err)
				}
			}
		}
		must(t, g.Sync(ctx))
		if g.Edges() != 2 || g.Vertices() != 3 {
			t.Errorf("%d edges, %d vertices; there were 2 and 3", g.Edges(), g.Vertices())
		}
		if got := devicetest.Download(t, s, weights); !slices.Equal(got, []uint32{8, 9}) {
			t.Errorf("weights have been written: %v", got)
		}
		must(t, errors.Join(elsewhere.Free(), g.Close()))
	})
}

// TestWithoutStream checks that On methods refuse nil and streams of other devices before anything
// changes.
func TestWithoutStream(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		ctx, s := t.Context(), devicetest.NewStream(t, dev)
		g, err := NewWeightedGraph[uint32](dev, nil)
		must(t, err)
		ends, kinds, none := devicetest.Upload(t, s, []uint32{0, 1}), devicetest.Upload(t, s, []uint8{0, 0}), device.Slice[bool]{}
		elsewhere := devicetest.NewStream(t, devicetest.OpenCPU(t, 1))
		for _, s := range []*device.Stream{nil, elsewhere} {
			for name, run := range map[string]func() error{
				"InsertOn":         func() error { return g.InsertOn(s, ends, ends, ends, none) },
				"DeleteOn":         func() error { return g.DeleteOn(s, ends, ends, none) },
				"ApplyOn":          func() error { return g.ApplyOn(s, kinds, ends, ends, ends, none) },
				"InsertVerticesOn": func() error { return g.InsertVerticesOn(s, ends) },
				"DeleteVerticesOn": func() error { return g.DeleteVerticesOn(s, ends) },
				"HasOn":            func() error { return g.HasOn(s, ends, ends, none) },
				"WeightOn":         func() error { return g.WeightOn(s, ends, ends, ends, none) },
				"DegreeOn":         func() error { return g.DegreeOn(s, ends, ends) },
				"CSROn":            func() error { _, err := g.CSROn(ctx, s); return err },
			} {
				if err := run(); !errors.Is(err, device.ErrInvalid) {
					t.Errorf("%s, without a stream %v: %v", name, s == nil, err)
				}
			}
		}
		must(t, g.Check(ctx))
		if g.Edges() != 0 || g.Vertices() != 0 {
			t.Errorf("%d edges, %d vertices", g.Edges(), g.Vertices())
		}
		must(t, g.Close())
	})
}

// TestMissingWeights checks that a WeightedGraph refuses edges without weights from inherited
// methods.
func TestMissingWeights(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		ctx, s := t.Context(), devicetest.NewStream(t, dev)
		g, err := NewWeightedGraph[uint64](dev, nil)
		must(t, err)
		from, to := []uint32{0, 1}, []uint32{1, 2}
		fromOn, toOn := devicetest.Upload(t, s, from), devicetest.Upload(t, s, to)
		c, err := Build(ctx, devicetest.OpenCPU(t, 1), Edges{From: from, To: to}, nil)
		must(t, err)
		for name, run := range map[string]func() error{
			"Insert":    func() error { _, err := g.Graph.Insert(ctx, from, to, nil); return err },
			"InsertOn":  func() error { return g.Graph.InsertOn(s, fromOn, toOn, device.Slice[bool]{}) },
			"InsertCSR": func() error { _, err := g.Graph.InsertCSR(ctx, c); return err },
			"Apply": func() error {
				_, err := g.Graph.Apply(ctx, []weft.OpKind{weft.OpDelete, weft.OpPut}, from, to, nil)
				return err
			},
		} {
			if err := run(); !errors.Is(err, device.ErrInvalid) {
				t.Errorf("%s without weights: %v", name, err)
			}
		}
		if g.Edges() != 0 || g.Vertices() != 0 {
			t.Errorf("%d edges, %d vertices", g.Edges(), g.Vertices())
		}
		if _, err := g.Delete(ctx, from, to, nil); err != nil {
			t.Errorf("deletions have no weights: %v", err)
		}
		must(t, g.Close())
	})
}

// TestRowsOnWeights checks that rows are not written beyond the slice of weights.
func TestRowsOnWeights(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		ctx, s := t.Context(), devicetest.NewStream(t, dev)
		g, err := NewWeightedGraph[uint64](dev, nil)
		must(t, err)
		_, err = g.Insert(ctx, []uint32{0, 0, 0}, []uint32{1, 2, 3}, []uint64{5, 6, 7}, nil)
		must(t, err)
		vertices, degrees := devicetest.Upload(t, s, []uint32{0}), devicetest.Upload(t, s, []uint32{0})
		offsets, ids := devicetest.Upload(t, s, make([]uint64, 2)), devicetest.Upload(t, s, make([]uint32, 3))
		weights := devicetest.Upload(t, s, make([]uint64, 3))
		if !panics(func() { g.RowsOn(s, vertices, degrees, offsets, ids, weights.Sub(0, 2)) }) {
			t.Error("fewer weights than neighbors")
		}
		must(t, g.RowsOn(s, vertices, degrees, offsets, ids.Sub(0, 2), weights))
		if got := devicetest.Download(t, s, weights); !slices.Equal(got, []uint64{5, 6, 0}) {
			t.Errorf("weights %v, want those of two neighbors", got)
		}
		must(t, g.Close())
	})
}

// TestFreedDeviceCSR checks that all methods of a freed graph on a device return an error.
func TestFreedDeviceCSR(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		ctx, s := t.Context(), devicetest.NewStream(t, dev)
		c, err := BuildWeighted(ctx, devicetest.OpenCPU(t, 1), Edges{From: []uint32{0, 1}, To: []uint32{1, 2}}, []float32{1, 2}, nil)
		must(t, err)
		d, err := c.Upload(s)
		must(t, err)
		must(t, errors.Join(s.Sync(ctx), d.Free()))
		if d.Vertices() != 0 || d.Arcs() != 0 || d.Edges() != 0 || d.Loops() != 0 || d.Host() != nil || d.DeviceCSR.Host() != nil {
			t.Errorf("%d vertices, %d arcs, %d edges are left", d.Vertices(), d.Arcs(), d.Edges())
		}
		if _, err := d.Download(ctx, s); !errors.Is(err, device.ErrClosed) {
			t.Errorf("Download: %v", err)
		}
		if _, err := d.Oriented(ctx, s); !errors.Is(err, device.ErrClosed) {
			t.Errorf("Oriented: %v", err)
		}
	})
}

// TestUploadWithoutStream checks that Upload requires a stream.
func TestUploadWithoutStream(t *testing.T) {
	c, err := BuildWeighted(t.Context(), devicetest.OpenCPU(t, 1), Edges{From: []uint32{0}, To: []uint32{1}}, []float32{1}, nil)
	must(t, err)
	if _, err := c.Upload(nil); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("no stream: %v", err)
	}
}

// TestCSROnReturnsNothing checks that a failed export returns no graph.
func TestCSROnReturnsNothing(t *testing.T) {
	dev := devicetest.Open(t)
	s := devicetest.NewStream(t, dev)
	g, err := New(dev, nil)
	must(t, err)
	_, err = g.Insert(t.Context(), []uint32{0}, []uint32{1}, nil)
	must(t, err)
	devicetest.FailEach(t, dev, "CSROn", func() error {
		d, err := g.CSROn(t.Context(), s)
		if err != nil {
			if d != nil {
				return fmt.Errorf("a graph and %v", err)
			}
			return err
		}
		devicetest.ClearFailures(dev)
		return d.Free()
	})
	must(t, g.Close())
}
