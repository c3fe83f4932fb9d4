package triangles_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/gpu/triangles"
)

// view lays rows out as an oriented view.
func (b bench) view(rows ...[]uint32) triangles.Rows {
	offsets, neighbors := []uint64{0}, []uint32(nil)
	for _, row := range rows {
		neighbors = append(neighbors, row...)
		offsets = append(offsets, uint64(len(neighbors)))
	}
	return b.upload(offsets, neighbors)
}

// stepped returns the numbers from lo to hi-1 in steps.
func stepped(lo, hi, step int) (row []uint32) {
	for v := lo; v < hi; v += step {
		row = append(row, uint32(v))
	}
	return row
}

func (b bench) wantClosed(name string, want uint64, rows ...[]uint32) {
	b.Helper()
	got, err := b.k.Count(context.Background(), b.s, b.view(rows...))
	if err != nil || got != want {
		b.Errorf("%s: %d closed wedges, %v, want %d", name, got, err, want)
	}
}

// The rows exceed a block's table, and have enough wedges over a few arcs that a warp leaves them
// to a block. Only a graph with millions of edges has such rows.
func TestSmokeLongRows(t *testing.T) { tryLongRows(t, devicetest.OpenGPU(t)) }

func tryLongRows(t testing.TB, dev device.Device) {
	b := on(t, dev)
	const n = 5000
	// Row 0 leads to all others; row 1 leads to every third of them and row 2 to every seventh.
	rows := make([][]uint32, n)
	rows[0], rows[1], rows[2] = stepped(1, n, 1), stepped(5, n, 3), stepped(4, n, 7)
	b.wantClosed("a hub", uint64(len(rows[1])+len(rows[2])), rows...)
	// Rows 0 and 1 lead to 20 and 40 others, which lead to 1,700 vertices each. Row 1 also leads to
	// those with odd numbers.
	rows = make([][]uint32, n)
	for v := 100; v < 160; v++ {
		rows[v] = stepped(200, 1900, 1)
	}
	rows[0], rows[1] = stepped(100, 120, 1), append(stepped(120, 160, 1), stepped(201, 240, 2)...)
	b.wantClosed("many wedges", 40*20, rows...)
	rows[1] = append(stepped(130, 150, 1), 1899)
	b.wantClosed("many wedges, and one of a row closed", 20, rows...)
}

// A device without kernels is rejected.
func TestNoKernels(t *testing.T) {
	if _, err := triangles.Load(devicetest.OpenCPU(t, 1)); !errors.Is(err, device.ErrNoKernels) {
		t.Errorf("on a CPU: %v", err)
	}
}

// Running out of memory and ended contexts leak nothing, and the next call succeeds.
func TestFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.Checked(t, devicetest.OpenSim(t, &sim.Options{}))
	b := on(t, dev)
	g := build(t, random(60, 400, 1), nil)
	input := b.upload(g.Offsets(), g.Targets())
	dynamic := b.dynamicGraph(g, 32)
	from, to := devicetest.Upload(t, b.s, []uint32{1, 2}), devicetest.Upload(t, b.s, []uint32{3, 4})
	calls := map[string]func(context.Context) error{
		"Orient": func(ctx context.Context) error {
			view, err := b.k.Orient(ctx, b.s, input)
			return errors.Join(err, view.Free())
		},
		"Count": func(ctx context.Context) error {
			_, err := b.k.Count(ctx, b.s, input)
			return err
		},
		"Of": func(ctx context.Context) error {
			_, err := b.k.CountBatch(ctx, b.s, dynamic, from, to, device.Slice[bool]{})
			return err
		},
	}
	for name, call := range calls {
		must(t, call(t.Context())) // also loads the kernels
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
}
