package graph

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

func sameCSR(t *testing.T, name string, got, want *CSR) {
	t.Helper()
	if !slices.Equal(got.offsets, want.offsets) || !slices.Equal(got.neighbors, want.neighbors) ||
		got.Edges() != want.Edges() || got.loops != want.loops || got.directed != want.directed || got.sorted != want.sorted || got.simple != want.simple {
		t.Errorf("%s: another graph: %d vertices, %d edges; want %d, %d", name, got.Vertices(), got.Edges(), want.Vertices(), want.Edges())
	}
}

// devices runs a test on the device of the environment, by default a CPU, and on a simulated GPU.
func devices(t *testing.T, test func(t *testing.T, dev device.Device)) {
	t.Run("device", func(t *testing.T) { test(t, devicetest.Open(t)) })
	if !testing.Short() {
		t.Run("sim", func(t *testing.T) { test(t, devicetest.OpenSim(t, &sim.Options{})) })
	}
}

// TestUpload checks that an uploaded graph has the properties of the original, and is downloaded
// unchanged.
func TestUpload(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		ctx, s := t.Context(), devicetest.NewStream(t, dev)
		e := Edges{Vertices: 9, From: []uint32{1, 1, 4, 7, 7, 2}, To: []uint32{2, 4, 1, 7, 3, 2}}
		for _, o := range []Options{{}, {Directed: true}, {SelfLoops: true, Multi: true}} {
			host := devicetest.OpenCPU(t, 1)
			g, err := BuildWeighted(ctx, host, e, []float32{1, 2, 3, 4, 5, 6}, &o)
			must(t, err)
			d, err := g.Upload(s)
			must(t, err)
			if d.Vertices() != g.Vertices() || d.Arcs() != g.Arcs() || d.Edges() != g.Edges() || d.Loops() != g.Loops() ||
				d.Directed() != g.Directed() || d.Sorted() != g.Sorted() || d.Simple() != g.Simple() || d.Device() != dev {
				t.Errorf("what is known of the graph has changed")
			}
			back, err := d.Download(ctx, s)
			must(t, err)
			sameCSR(t, "downloaded", back.CSR, g.CSR)
			if !slices.Equal(back.AllWeights(), g.AllWeights()) {
				t.Errorf("weights %v, want %v", back.AllWeights(), g.AllWeights())
			}
			if shared := d.Host(); shared != nil {
				sameCSR(t, "on the host", shared.CSR, g.CSR)
			} else if isHost(dev) {
				t.Error("no graph on a device of the host")
			}
			must(t, d.Free())
			must(t, d.Free())
		}
	})
}

// TestCSROn checks that graphs and snapshots export the same rows to the device as to the host.
func TestCSROn(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		ctx, s := t.Context(), devicetest.NewStream(t, dev)
		for _, o := range []Options{{}, {Directed: true, SelfLoops: true}} {
			g, err := NewWeightedGraph[uint64](dev, &o)
			must(t, err)
			r := rand.New(rand.NewPCG(1, 5))
			for round := range 3 {
				snap, err := g.Snapshot(ctx)
				must(t, err)
				want, err := g.CSR(ctx)
				must(t, err)
				n := 400 * round
				from, to, weights := make([]uint32, n+1), make([]uint32, n+1), make([]uint64, n+1)
				for i := range from {
					from[i], to[i], weights[i] = uint32(r.IntN(3+60*round)), uint32(r.IntN(90)), r.Uint64()
				}
				sameOn(t, "graph", s, want, func() (*DeviceWeighted[uint64], error) { return g.CSROn(ctx, s) })
				_, err = g.Insert(ctx, from, to, weights, nil)
				must(t, err)
				sameOn(t, "snapshot", s, want, func() (*DeviceWeighted[uint64], error) { return snap.CSROn(ctx, s) })
				rows, err := snap.Snapshot.CSROn(ctx, s)
				must(t, err)
				back, err := rows.Download(ctx, s)
				must(t, err)
				sameCSR(t, "rows", back, want.CSR)
				must(t, errors.Join(rows.Free(), snap.Close()))
			}
			must(t, g.Close())
		}
	})
}

func sameOn(t *testing.T, name string, s *device.Stream, want *Weighted[uint64], export func() (*DeviceWeighted[uint64], error)) {
	t.Helper()
	d, err := export()
	must(t, err)
	got, err := d.Download(t.Context(), s)
	must(t, err)
	sameCSR(t, name, got.CSR, want.CSR)
	if !slices.Equal(got.AllWeights(), want.AllWeights()) {
		t.Errorf("%s: other weights", name)
	}
	must(t, d.Free())
}

// TestCSROnFails checks that a lack of memory at any point leaks nothing and leaves the graph
// unchanged. It checks the same for a stream of another device.
func TestCSROnFails(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		ctx, s := t.Context(), devicetest.NewStream(t, dev)
		g, err := NewWeightedGraph[uint32](dev, nil)
		must(t, err)
		_, err = g.Insert(ctx, []uint32{0, 1, 2}, []uint32{1, 2, 3}, []uint32{7, 8, 9}, nil)
		must(t, err)
		want, err := g.CSR(ctx)
		must(t, err)
		for _, run := range []func() (*DeviceWeighted[uint32], error){
			func() (*DeviceWeighted[uint32], error) { return g.CSROn(ctx, s) },
			func() (*DeviceWeighted[uint32], error) { return want.Upload(s) },
		} {
			devicetest.FailEach(t, dev, "rows on the device", func() error {
				d, err := run()
				if err != nil {
					return err
				}
				devicetest.ClearFailures(dev)
				return errors.Join(s.Sync(ctx), d.Free())
			})
		}
		other := devicetest.NewStream(t, devicetest.OpenCPU(t, 1))
		if _, err := g.CSROn(ctx, other); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("stream of another device: %v", err)
		}
		if _, err := g.CSROn(ctx, nil); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("no stream: %v", err)
		}
		must(t, g.Close())
		if _, err := g.CSROn(ctx, s); !errors.Is(err, device.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}
