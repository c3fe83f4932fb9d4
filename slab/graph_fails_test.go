package slab

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/hash"
)

// graphFails makes each operation of the device fail once while graphs are made, grow, move their
// tables and shrink. It repeats the failed call. Then the graph must be complete, and Close must
// free all memory.
func graphFails(t *testing.T, dev device.Device, step int) {
	ctx := t.Context()
	before := devicetest.Live(dev)
	for n := 0; ; n += step {
		fired := devicetest.FailAfter(dev, n)
		failures := 0
		again := func(call func() error) {
			t.Helper()
			err := call()
			if err == nil {
				return
			}
			if failures++; failures > 1 || !fired() {
				t.Fatalf("operation %d fails: %v", n, err)
			}
			devicetest.ClearFailures(dev)
			noError(t, call())
		}
		var g *Graph
		again(func() (err error) {
			g, err = NewGraph(dev, &GraphOptions{Vertices: 8, MaxLoad: 2, Seed: 1})
			return err
		})
		for lo := uint32(1); lo < 320; lo += 80 {
			again(func() error {
				_, err := g.Insert(ctx, make([]uint32, 80), sequence(int(lo), int(lo+80)), nil)
				return err
			})
		}
		again(func() error { _, err := g.Delete(ctx, make([]uint32, 300), sequence(1, 301), nil); return err })
		again(func() error { return g.Compact(ctx) })
		devicetest.ClearFailures(dev)
		noError(t, g.checkMemory())
		noError(t, g.Check(ctx))
		row, err := g.Neighbors(ctx, 0, nil)
		noError(t, errors.Join(err, g.Close()))
		if len(row) != 20 || devicetest.Live(dev) != before {
			t.Fatalf("operation %d fails: %d neighbors, want 20; %+v stay, want %+v", n, len(row), devicetest.Live(dev), before)
		}
		if !fired() {
			return
		}
	}
}

// TestGraphFails checks that no failure loses stored data or memory.
func TestGraphFails(t *testing.T) {
	graphFails(t, devicetest.Open(t), 1)
}

// TestGraphFailsSimulated runs graphFails on a simulated GPU.
func TestGraphFailsSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	graphFails(t, devicetest.OpenSim(t, &sim.Options{Arch: 90}), 11)
}

// TestGraphFailsInRehash makes an operation fail while tables of vertices move, and when the next
// batch reads that they have moved. The graph must not lose base slabs.
func TestGraphFailsInRehash(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
	for n, fired := 0, true; fired; n++ {
		p := newGraphPlayer(t, dev, false, GraphOptions{Vertices: 300, Directed: true, MaxLoad: 2, Seed: 1}, 300, 0, 1)
		p.insert(make([]uint32, 60), sequence(1, 61), make([]uint32, 60))
		more := sequence(61, 200)
		has := devicetest.FailAfter(dev, n)
		_, err := p.set.Insert(t.Context(), make([]uint32, len(more)), more, nil)
		if fired = has(); err != nil && !fired {
			t.Fatalf("%d operations, none of which fails: %v", n, err)
		}
		devicetest.ClearFailures(dev)
		for _, v := range more {
			p.model[edge{0, v}] = 0
		}
		_, err = p.set.Insert(t.Context(), make([]uint32, len(more)), more, nil)
		noError(t, err)
		p.same()
		p.close()
	}
}

// TestGraphWaitsAsLongAsItsContext checks that a call that waits for other calls returns when its
// context ends, and has changed nothing.
func TestGraphWaitsAsLongAsItsContext(t *testing.T) {
	for _, dev := range []device.Device{devicetest.OpenCPU(t, 1), devicetest.OpenSim(t, &sim.Options{Arch: 90})} {
		g, err := NewGraph(dev, nil)
		noError(t, err)
		whole := []func(ctx context.Context) error{
			func(ctx context.Context) error { _, err := g.Triangles(ctx); return err },
			func(ctx context.Context) error { _, err := g.DeleteVertices(ctx, []uint32{1}); return err },
			func(ctx context.Context) error { return g.Save(ctx, io.Discard) },
			func(ctx context.Context) error {
				_, err := g.Apply(ctx, []weft.OpKind{weft.OpPut}, []uint32{1}, []uint32{2}, nil)
				return err
			},
		}
		wait := func(hold func(started, release chan struct{}), also ...func(context.Context) error) {
			t.Helper()
			started, release := make(chan struct{}), make(chan struct{})
			over := make(chan struct{})
			go func() {
				defer close(over)
				hold(started, release)
			}()
			<-started
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			if n, err := g.Insert(ctx, []uint32{1}, []uint32{2}, nil); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%d, %v", n, err)
			}
			for i, call := range also {
				if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("call %d: %v", i, err)
				}
			}
			close(release)
			<-over
		}
		wait(func(started, release chan struct{}) { // another call holds the writer lock
			err := g.core.WithWriteLock(context.Background(), "hold", func(core.Counters) error {
				close(started)
				<-release
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}, whole...)
		if e, ok := g.policy.engine.(*gpuGraph); ok {
			wait(func(started, release chan struct{}) { // another batch is being copied
				e.arcs.sem <- struct{}{}
				close(started)
				<-release
				<-e.arcs.sem
			})
		}
		n, err := g.Insert(t.Context(), []uint32{1}, []uint32{2}, nil)
		if n != 1 || err != nil {
			t.Errorf("afterwards: %d, %v", n, err)
		}
		noError(t, g.Close())
	}
}

// TestGraphScratch checks that growing batches rarely enlarge the work memory, and that Stats
// reports its size.
func TestGraphScratch(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
	p := newGraphPlayer(t, dev, true, GraphOptions{Vertices: 300, Seed: 1}, 300, 3000, 1)
	defer p.close()
	p.insert(p.draw())
	a := &p.g.policy.engine.(*gpuGraph).arcs
	scratch := func() int {
		s, err := p.g.Stats(t.Context())
		noError(t, err)
		return s.Scratch
	}
	said, had := scratch(), devicetest.Live(dev).Bytes
	made := map[device.Ptr]bool{}
	for n := range 10_000 {
		noError(t, growColumn(t.Context(), a, &a.keys, n))
		made[a.keys.Ptr()] = true
	}
	if len(made) > 3 {
		t.Errorf("keys were made anew %d times", len(made))
	}
	said, had = scratch()-said, devicetest.Live(dev).Bytes-had
	if said != had || said == 0 {
		t.Errorf("memory is said to have grown by %d bytes, and has by %d", said, had)
	}
}

// TestGraphParts checks batches that run in parts. An error reports the position of a bad edge in
// the whole batch, and the parts before it are inserted. A batch that is changed in place is
// checked as a whole. A closed graph returns an error.
func TestGraphParts(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
	g, err := NewGraph(dev, &GraphOptions{MaxVertices: 100, Directed: true})
	noError(t, err)
	g.policy.engine.(*gpuGraph).arcs.maxEdges = 3
	s := devicetest.NewStream(t, dev)
	from, to := devicetest.Upload(t, s, []uint32{1, 2, 3, 4, 3}), devicetest.Upload(t, s, []uint32{2, 3, 4, 5, 100})
	for _, told := range []device.Slice[bool]{{}, devicetest.Upload(t, s, make([]bool, 5))} {
		err = g.InsertOn(s, from, to, told)
		partial, in := new(weft.PartialError), 0
		if told.Len() > 0 {
			in = 3
		}
		if !errors.Is(err, weft.ErrOptions) || !errors.As(err, &partial) || partial.Done != in || !strings.Contains(err.Error(), "edge 4 from 3 to 100") {
			t.Errorf("a bad edge in the second part: %v", err)
		}
		noError(t, g.Sync(t.Context()))
		if g.Edges() != in {
			t.Errorf("%d edges, want %d", g.Edges(), in)
		}
	}
	noError(t, g.Close())
	if _, err := g.Insert(t.Context(), []uint32{1}, []uint32{2}, nil); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// narrow prevents the pool of a graph from getting more memory blocks, and leaves the given number
// of units free. show frees the other units, unless all tables have moved to another pool.
func narrow(t testing.TB, g *graph, left int) (show func() error) {
	t.Helper()
	of := g.generation()
	all, err := hide(g.core.Device, g.policy.engine.units(), left)
	noError(t, err)
	other, err := g.generation().pool.Owner()
	noError(t, err)
	stats := g.generation().pool.Stats()
	noError(t, other.Reserve(t.Context(), (stats.MaxSuperBlocks*stats.Blocks)*alloc.BlockUnits-stats.Owned))
	g.policy.free = 0
	return func() error {
		if g.generation() != of {
			return nil
		}
		return all()
	}
}

// graphNarrow checks that all tables move to a pool of larger super blocks if the pool may have no
// more. That may happen when tables move, when units are reserved, and when edges have found no
// unit.
func graphNarrow(t testing.TB, dev device.Device, weighted bool) {
	p := newGraphPlayer(t, dev, weighted, GraphOptions{Directed: true, Vertices: 300, MaxLoad: 2, Seed: 1}, 300, 0, 1)
	defer p.close()
	at := uint32(10)
	star := func(n uint32) {
		p.insert(make([]uint32, n), sequence(int(at), int(at+n)), sequence(0, int(n)))
		at += n
	}
	moved := func(want bool, n uint32) {
		t.Helper()
		before := p.g.generation()
		if star(n); (p.g.generation() != before) != want {
			t.Fatalf("%d edges: all has moved: %v", n, !want)
		}
	}
	slots := uint32(slotsIn(p.g.policy.widths.Slot))
	star(4 * slots) // two base slabs
	narrow(t, p.g, 0)
	moved(true, 5*slots)
	p.same()
	narrow(t, p.g, 0)
	moved(true, slots)
	p.same()
	narrow(t, p.g, 0)
	// The other edges lead from vertices without a table.
	p.insert(append(make([]uint32, slots), 100, 101, 102), append(sequence(int(at), int(at+slots)), 1, 2, 3), sequence(0, int(slots)+3))
	at += slots
	p.same()
	show, err := hide(dev, p.g.policy.engine.units(), 0)
	noError(t, err)
	// so that the policy relies on units that do not exist
	p.g.policy.free = p.g.policy.maxUnitsFor(int(slots))
	moved(false, slots)
	noError(t, show())
	p.same()
}

func TestGraphNarrow(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		graphNarrow(t, devicetest.Open(t), weighted)
		if !testing.Short() {
			graphNarrow(t, devicetest.OpenSim(t, &sim.Options{Arch: 90}), weighted)
		}
	}
}

// TestGraphMovesIntoTheLastUnits moves tables on several cores with no unit to spare. All neighbors
// of a table are in one of its buckets. No neighbor may be lost, and no unit beyond the reserved
// units requested.
func TestGraphMovesIntoTheLastUnits(t *testing.T) {
	dev := devicetest.OpenCPU(t, 4)
	for seed := range uint64(3) {
		p := newGraphPlayer(t, dev, false, GraphOptions{Directed: true, Vertices: 64, MaxLoad: 2, MaxTombstones: -1, Seed: 1 + seed}, 3000, 0, 1)
		slots := slotsIn(p.g.policy.widths.Slot)
		var alike []uint32 // neighbors in the first bucket of tables of any size
		for v := uint32(64); len(alike) < 10*slots; v++ {
			if hash.Reduce32(hash.Uint32(v, 1+seed), 8) == 0 {
				alike = append(alike, v)
			}
		}
		insert := func(lo, hi int) {
			var from, to []uint32
			for u := range uint32(64) {
				for _, v := range alike[lo:hi] {
					from, to = append(from, u), append(to, v)
				}
			}
			p.insert(from, to, from)
		}
		insert(0, 4*slots)
		e := p.g.policy.engine.(*cpuGraph[struct{}, struct{}])
		const moving = 16 // number of tables with base slabs in reserve
		var more []uint64
		for u := range uint32(moving) {
			for _, v := range alike[4*slots : 9*slots] {
				more = append(more, arcOf(u, v))
			}
		}
		b := &batch.Batch{N: len(more)}
		b.Columns[batch.Keys] = batch.Input(more)
		need, err := e.countIncoming(t.Context(), nil, b)
		noError(t, err)
		if need.slabs == 0 || len(e.toRehash) != moving {
			t.Fatalf("%+v, %d tables move", need, len(e.toRehash))
		}
		noError(t, e.units().Reserve(t.Context(), moving*4))
		show, err := hide(dev, e.units(), moving*4) // the units that the moving tables fill
		noError(t, err)
		before, err := e.units().Usage(t.Context())
		noError(t, err)
		if done, err := e.rehash(t.Context()); !done || err != nil {
			t.Fatalf("tables have moved: %v, %v", done, err)
		}
		noError(t, e.clearIncoming(t.Context(), nil, b))
		if after, err := e.units().Usage(t.Context()); err != nil || after.Units != before.Units {
			t.Errorf("%+v, %v, want as many units as in %+v", after, err, before)
		}
		noError(t, show())
		p.g.policy.free = 0
		p.same()
		insert(4*slots, 10*slots)
		p.same()
		p.close()
	}
}

// TestGraphClosedAfterRows closes graphs right after lookups of rows, even without neighbors.
func TestGraphClosedAfterRows(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
	for _, vertex := range []uint32{1, 3} {
		g, err := NewWeightedGraph[uint32](dev, nil)
		noError(t, err)
		_, err = g.Insert(t.Context(), []uint32{1, 3}, []uint32{2, 4}, []uint32{5, 6}, nil)
		noError(t, err)
		_, err = g.Delete(t.Context(), []uint32{1}, []uint32{2}, nil)
		noError(t, err)
		_, _, _, err = g.Rows(t.Context(), []uint32{vertex})
		noError(t, errors.Join(err, g.Close()))
	}
}

// TestGraphLoadsAgain checks that kernels that could not be loaded are loaded by the next call.
func TestGraphLoadsAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
	g, err := NewGraph(dev, nil)
	noError(t, err)
	s := devicetest.NewStream(t, dev)
	kinds, ends := devicetest.Upload(t, s, []uint8{uint8(weft.OpPut)}), devicetest.Upload(t, s, []uint32{1, 2})
	for _, fails := range []bool{true, true, false} {
		if fails {
			devicetest.FailNext(dev, devicetest.OpLoad)
		}
		if err := g.ApplyOn(s, kinds, ends.Sub(0, 1), ends.Sub(1, 2), device.Slice[bool]{}); (err != nil) != fails {
			t.Errorf("%v, want an error: %v", err, fails)
		}
	}
	noError(t, errors.Join(g.Sync(t.Context()), g.Close()))
}
