package graph

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// cancelAfter is a context that ends after a number of calls of Err.
type cancelAfter struct {
	context.Context
	left atomic.Int64
}

var ended = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (c *cancelAfter) Done() <-chan struct{} {
	if c.left.Load() > 0 {
		return nil
	}
	return ended
}

func (c *cancelAfter) Err() error {
	if c.left.Add(-1) >= 0 {
		return nil
	}
	return context.Canceled
}

// step is a call on a graph that has a snapshot, and its effect on a model.
type step struct {
	name  string
	call  func(context.Context, *WeightedGraph[uint32], *WeightedSnapshot[uint32]) error
	model func(*model[uint32])
}

// star returns n edges from a hub to the vertices that follow it.
func star(n, hub, weight int) (from, to, weights []uint32) {
	for i := range n {
		from, to, weights = append(from, uint32(hub)), append(to, uint32(hub+1+i)), append(weights, uint32(i+weight))
	}
	return from, to, weights
}

// star applies the edges of a star to the model.
func (m *model[W]) star(kind weft.OpKind, n, hub, weight int) {
	from, to, weights := star(n, hub, weight)
	for i := range from {
		m.apply(kind, from[i], to[i], W(weights[i]))
	}
	m.markLive()
}

// steps returns calls that may fail.
func steps() []step {
	type g = *WeightedGraph[uint32]
	type s = *WeightedSnapshot[uint32]
	insert := func(ctx context.Context, g g, _ s) error {
		from, to, weights := star(90, 4, 5)
		_, err := g.Insert(ctx, from, to, weights, nil)
		return err
	}
	inserted, same := func(m *model[uint32]) { m.star(weft.OpPut, 90, 4, 5) }, func(*model[uint32]) {}
	return []step{
		{"Insert", insert, inserted},
		{"Insert, sorted", func(ctx context.Context, g g, s s) error {
			forceSort(g.store, true)
			defer forceSort(g.store, false)
			return insert(ctx, g, s)
		}, inserted},
		{"Delete", func(ctx context.Context, g g, _ s) error {
			from, to, _ := star(35, 0, 0)
			_, err := g.Delete(ctx, from, to, make([]bool, 35))
			return err
		}, func(m *model[uint32]) { m.star(weft.OpDelete, 35, 0, 0) }},
		{"InsertVertices", func(ctx context.Context, g g, _ s) error {
			_, err := g.InsertVertices(ctx, []uint32{99, 98})
			return err
		}, func(m *model[uint32]) { m.vertices[99], m.vertices[98] = true, true }},
		{"DeleteVertices", func(ctx context.Context, g g, _ s) error {
			_, err := g.DeleteVertices(ctx, []uint32{0, 3})
			return err
		}, func(m *model[uint32]) { m.deleteVertices([]uint32{0, 3}) }},
		{"Clear", func(ctx context.Context, g g, _ s) error { return g.Clear(ctx) }, func(m *model[uint32]) { *m = *newModel[uint32](m.Options) }},
		{"Compact", func(ctx context.Context, g g, _ s) error { return g.Compact(ctx) }, same},
		{"Snapshot", func(ctx context.Context, g g, _ s) error {
			s, err := g.Snapshot(ctx)
			if err == nil {
				err = s.Close()
			}
			return err
		}, same},
		{"Close of a snapshot", func(_ context.Context, _ g, s s) error { return s.Close() }, same},
		{"CSR", func(ctx context.Context, g g, _ s) error {
			_, err := g.CSR(ctx)
			return err
		}, same},
	}
}

// heldGraph returns a graph and an open snapshot, which uses blocks that the graph no longer uses.
func heldGraph(t testing.TB, dev device.Device, o Options) (*WeightedGraph[uint32], held[uint32], *model[uint32]) {
	g, err := NewWeightedGraph[uint32](dev, &o)
	must(t, err)
	m := newModel[uint32](o)
	put := func(n, hub, weight int) {
		from, to, weights := star(n, hub, weight)
		_, err := g.Insert(t.Context(), from, to, weights, nil)
		must(t, err)
		m.star(weft.OpPut, n, hub, weight)
	}
	put(40, 0, 0)
	put(30, 3, 0)
	s, err := g.Snapshot(t.Context())
	must(t, err)
	h := held[uint32]{s, m.clone()}
	put(20, 0, 7)
	put(20, 3, 7)
	return g, h, m
}

// fails makes one call on a graph fail, and reports whether the failure was reached. Then the graph
// must be unchanged or, if only the result was missing, changed completely. fails repeats the call.
func fails(t testing.TB, dev device.Device, o Options, x step, fail func(context.Context) (context.Context, func() bool)) (fired bool) {
	t.Helper()
	g, h, m := heldGraph(t, dev, o)
	same := func() {
		t.Helper()
		must(t, g.Sync(t.Context()))
		must(t, g.Check(t.Context()))
		m.same(t, g, 100)
		if !h.closed {
			h.model.same(t, h.WeightedSnapshot, 100)
		}
	}
	ctx, failed := fail(t.Context())
	err := x.call(ctx, g, h.WeightedSnapshot)
	devicetest.ClearFailures(dev)
	if fired = failed(); !fired {
		must(t, err)
	}
	must(t, g.Sync(t.Context()))
	after := m.clone()
	if x.model(after); err == nil || g.Edges() == after.count() && g.Vertices() == len(after.vertices) {
		m = after
	}
	same()
	must(t, x.call(t.Context(), g, h.WeightedSnapshot))
	x.model(m)
	same()
	must(t, h.Close())
	from, to, weights := star(90, 1, 9) // the new rows take free memory
	_, err = g.Insert(t.Context(), from, to, weights, nil)
	must(t, err)
	m.star(weft.OpPut, 90, 1, 9)
	same()
	must(t, g.Close())
	return fired
}

// TestFailures checks that each call takes effect completely or not at all, and that the graph
// stays consistent. Any operation of the device may fail, and a context may end at any point.
func TestFailures(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		before, simulated := devicetest.Live(dev), dev.Properties().Kind == device.Sim
		for i, x := range steps() {
			stride, limit := 1, math.MaxInt
			if simulated { // the simulator is slow
				stride, limit = 1+2*(i%2), 8
			}
			each := func(name string, n, stride, limit int, fail func(ctx context.Context, n int) (context.Context, func() bool)) {
				for fired := true; fired && n < limit; n += stride {
					for _, directed := range []bool{false, true} {
						if !isHost(dev) && directed != (i/2%2 == 1) {
							continue
						}
						fired = fails(t, dev, Options{Directed: directed}, x, func(ctx context.Context) (context.Context, func() bool) { return fail(ctx, n) })
						if live := devicetest.Live(dev); live != before {
							t.Fatalf("%s, %s %d: it left %+v, before there was %+v", x.name, name, n, live, before)
						}
					}
				}
			}
			each("operation", 0, stride, math.MaxInt, func(ctx context.Context, n int) (context.Context, func() bool) {
				return ctx, devicetest.FailAfter(dev, n)
			})
			each("end of the context", 0, 1, limit, func(ctx context.Context, n int) (context.Context, func() bool) {
				c := &cancelAfter{Context: ctx}
				c.left.Store(int64(n))
				return c, func() bool { return c.left.Load() < 0 }
			})
		}
	})
}

// TestOutOfMemory checks that a request for more memory than a device has is reported as a lack of
// memory, not as an invalid argument.
func TestOutOfMemory(t *testing.T) {
	dev := devicetest.OpenSim(t, &sim.Options{Memory: 1 << 20})
	g, err := New(dev, &Options{MaxVertices: 1 << 10})
	must(t, err)
	must(t, g.reserve(100, 10, g.engine.(*gpuEngine).zero))
	if err := g.reserve(1<<20, 10, g.engine.(*gpuEngine).zero); !errors.Is(err, device.ErrMemory) || errors.Is(err, device.ErrInvalid) {
		t.Errorf("blocks of 32 MiB on a device with 1 MiB: %v", err)
	}
	must(t, g.Close())
}

// TestPiecesFail checks that if a piece of a batch fails, the earlier pieces are done and reported.
func TestPiecesFail(t *testing.T) {
	dev := devicetest.Open(t)
	if dev.Properties().Kind == device.Sim || testing.Short() {
		t.Skip("a million arcs take a simulator minutes")
	}
	const piece, more = minPiece / 2, 1000
	from, to := make([]uint32, piece+more), make([]uint32, piece+more)
	for i := range from {
		from[i], to[i] = uint32(i%1000), uint32(i/1000+1000)
		if i >= piece {
			to[i] = uint32(1<<20 + i) // vertices without records
		}
	}
	for n, nPartial := 0, 0; ; n++ {
		g, err := New(dev, nil)
		must(t, err)
		fired := devicetest.FailMemoryAfter(dev, n)
		// also the next allocation, since areas then try a smaller one
		devicetest.FailMemoryAfter(dev, n)
		inserted, err := g.Insert(t.Context(), from, to, nil)
		devicetest.ClearFailures(dev)
		var partial *weft.PartialError
		if errors.As(err, &partial) && partial.Done > 0 {
			nPartial++
		}
		switch {
		case !fired() && (err != nil || inserted != piece+more):
			t.Fatalf("%d edges, %v", inserted, err)
		case err != nil && (partial == nil || partial.Done%piece != 0 || partial.Done != inserted || len(partial.Rows) > 0):
			t.Errorf("failure %d: %d edges, %v", n, inserted, err)
		}
		if must(t, g.Sync(t.Context())); g.Edges() != inserted {
			t.Errorf("failure %d: %d edges, and %d are said to have been inserted", n, g.Edges(), inserted)
		}
		must(t, g.Check(t.Context()))
		must(t, g.Close())
		if !fired() {
			if nPartial == 0 {
				t.Error("nothing failed between two pieces")
			}
			return
		}
	}
}

// TestLargeRowsFail runs TestFailures with a row that several blocks copy.
func TestLargeRowsFail(t *testing.T) {
	dev := devicetest.Open(t)
	if dev.Properties().Kind == device.Sim {
		t.Skip("takes a simulator minutes")
	}
	const size = 2 * chunkSize
	from, to, weights := star(size, 0, 0)
	more, others, later := star(size+20, 0, 9)
	for n, fired := 0, true; fired; n++ {
		g, err := NewWeightedGraph[uint32](dev, nil)
		must(t, err)
		_, err = g.Insert(t.Context(), from, to, weights, nil)
		must(t, err)
		did := devicetest.FailAfter(dev, n)
		_, err = g.Insert(t.Context(), more[size-10:], others[size-10:], later[size-10:], nil)
		devicetest.ClearFailures(dev)
		want := weights
		if fired = did(); err == nil || g.Edges() > size {
			want = slices.Concat(weights[:size-10], later[size-10:])
		} else if !fired {
			t.Fatal(err)
		}
		must(t, g.Check(t.Context()))
		c, err := g.CSR(t.Context())
		must(t, err)
		if !slices.Equal(c.CSR.Neighbors(0), others[:len(want)]) || !slices.Equal(c.Weights(0), want) {
			t.Errorf("failure %d: %d neighbors with weights up to %d, want %d", n, c.Degree(0), slices.Max(c.Weights(0)), len(want))
		}
		must(t, g.Close())
	}
}

// TestShrinkFails checks that a batch does not fail if its memory cannot be freed, and that a later
// batch frees it.
func TestShrinkFails(t *testing.T) {
	dev := devicetest.Open(t)
	if dev.Properties().Kind == device.Sim {
		t.Skip("takes a simulator minutes")
	}
	var from, to []uint32
	for u := range uint32(200) {
		for v := range u {
			from, to = append(from, u), append(to, v)
		}
	}
	for n, fired := 0, true; fired; n++ {
		g, err := New(dev, nil)
		must(t, err)
		_, err = g.Insert(t.Context(), from, to, nil)
		must(t, err)
		for range shrinkAfter - 1 {
			_, err = g.Delete(t.Context(), from, to, nil)
			must(t, err)
		}
		taken := g.units
		did := devicetest.FailMemoryAfter(dev, n)
		_, err = g.Delete(t.Context(), from[:1], to[:1], nil)
		devicetest.ClearFailures(dev)
		if fired = did(); err != nil || taken <= minShrinkUnits || !fired && g.units > minShrinkUnits {
			t.Errorf("failure %d: %v; of %d units %d are left", n, err, taken, g.units)
		}
		must(t, g.Check(t.Context()))
		for range shrinkAfter {
			_, err = g.Delete(t.Context(), from[:1], to[:1], nil)
			must(t, err)
		}
		if g.units > minShrinkUnits {
			t.Errorf("failure %d: %d units are left later", n, g.units)
		}
		must(t, g.Close())
	}
}
