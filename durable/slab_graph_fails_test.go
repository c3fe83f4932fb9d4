package durable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/slab"
)

// A batch that fails midway leaves each of its edges in the store in both directions or not at all.
// The store has those that lead from the smaller vertex in the graph. Running the batch again leads
// to the same graph as without the failure.
func TestSlabGraphFails(t *testing.T) {
	halves := 0
	for kind := range 5 {
		for seed := range uint64(2) {
			slabGraphFails(t, devicetest.OpenCPU(t, 2), seed == 1, kind, 1)
			if !testing.Short() {
				halves += slabGraphFails(t, devicetest.OpenSim(t, &sim.Options{Arch: 90}), seed == 1, kind, 13)
			}
		}
	}
	if t.Logf("%d edges in one direction", halves); halves == 0 && !testing.Short() {
		t.Error("no edge was stored in one direction only")
	}
}

// slabGraphFails makes one of every step operations of the device fail in a change. It returns the
// number of edges that the graph has in one direction only.
func slabGraphFails(t *testing.T, dev device.Device, directed bool, kind, step int) (halves int) {
	make := func() (tableGraph, error) {
		return newTableGraph(dev, true, slab.GraphOptions{Directed: directed, Seed: 1, MaxLoad: 2})
	}
	first, next := hub(), hub()
	first.from, first.to, first.weights = first.from[:20], first.to[:20], first.weights[:20]
	for i := range next.from { // half of them are at vertices without edges
		next.from[i] = uint32(i % 2 * 30)
	}
	for n := 0; ; n += step {
		fs, what := newMemoryFS(nil), fmt.Sprintf("change %d, operation %d", kind, n)
		g := openTableGraph(t, fs, make, Options{ReadAfterFailure: true})
		_, _, err := first.change(t, g, 11)
		must(t, err)
		before, err := arcsOf(g)
		must(t, err)
		change := next.failing(t, g, kind)
		fired := devicetest.FailAfter(dev, n)
		err = change()
		failed := errors.Is(err, ErrFailed)
		if err != nil && !fired() {
			t.Fatalf("%s: %v", what, err)
		}
		devicetest.ClearFailures(dev)
		if n%3 == 1 && !failed {
			must(t, change())
		}
		if err := g.Sync(t.Context()); (err != nil) != failed {
			t.Fatalf("%s: Sync: %v", what, err)
		}
		after, err := arcsOf(g)
		must(t, err)
		if !directed {
			halves += halfEdges(after)
		}
		if n%3 == 2 && !failed {
			must(t, Checkpoint(t.Context(), g))
		}
		if err := g.Close(); (err != nil) != failed {
			t.Fatalf("%s: Close: %v", what, err)
		}
		g = openTableGraph(t, fs, make, Options{})
		got, err := arcsOf(g)
		must(t, err, g.Check(t.Context()))
		if !failed {
			before = after
		}
		sameEdges(t, what, directed, got, before, after)
		must(t, g.Close())
		if !fired() {
			return halves
		}
	}
}

// failing returns a change that may fail, and run again.
func (e tableEdges) failing(t *testing.T, g tableGraph, kind int) func() error {
	ctx, o := t.Context(), e.upload(t, devicetest.NewStream(t, g.Device()))
	return []func() error{
		func() error { _, err := g.Insert(ctx, e.from, e.to, e.weights, nil); return err },
		func() error { _, err := g.Apply(ctx, e.kinds, e.from, e.to, e.weights, nil); return err },
		func() error { _, err := g.DeleteVertices(ctx, []uint32{0, 3}); return err },
		func() error { return g.InsertOn(o.s, o.from, o.to, o.weights, o.ok) },
		func() error { return g.ApplyOn(o.s, o.kinds, o.from, o.to, o.weights, o.ok) },
	}[kind]
}

// halfEdges returns the number of arcs without an arc in the other direction.
func halfEdges(arcs map[arc]float32) (n int) {
	for a := range arcs {
		if _, ok := arcs[arc{a.to, a.from}]; !ok {
			n++
		}
	}
	return n
}

// sameEdges checks that each edge of a graph is as it is in one of two others. In these, the arc
// from the smaller vertex decides.
func sameEdges(t *testing.T, what string, directed bool, got, before, after map[arc]float32) {
	t.Helper()
	for u := range uint32(tableVertices) {
		for v := range uint32(tableVertices) {
			a := arc{u, v}
			if !directed {
				a = arc{min(u, v), max(u, v)}
			}
			w, ok := got[arc{u, v}]
			w0, ok0 := before[a]
			w1, ok1 := after[a]
			if (ok != ok0 || w != w0) && (ok != ok1 || w != w1) {
				t.Fatalf("%s: edge %d-%d: %v %v, want %v %v or %v %v", what, u, v, w, ok, w0, ok0, w1, ok1)
			}
		}
	}
}

// A full disk refuses all kinds of changes before anything happens. After a failed write, changes
// and lookups fail until the store is opened again.
func TestSlabGraphDiskFails(t *testing.T) {
	small(t)
	for _, reads := range []bool{false, true} {
		slabGraphDiskFails(t, devicetest.OpenCPU(t, 1), reads)
		if !testing.Short() {
			slabGraphDiskFails(t, devicetest.OpenSim(t, &sim.Options{Arch: 90}), reads)
		}
	}
}

func slabGraphDiskFails(t *testing.T, dev device.Device, reads bool) {
	fs, e := newMemoryFS(nil), hub()
	make := func() (tableGraph, error) { return newTableGraph(dev, true, slab.GraphOptions{}) }
	g := openTableGraph(t, fs, make, Options{ReadAfterFailure: reads})
	store, err := storeOf(g)
	must(t, err)
	// until there is room for a few edges
	for seg := store.log.segment; seg.allocated-seg.size < allocationStep/2; {
		_, _, err := e.change(t, g, 11)
		must(t, err)
	}
	want, err := arcsOf(g)
	must(t, err)
	o, changes := e.upload(t, devicetest.NewStream(t, dev)), map[string]func() error{}
	for kind := range 5 {
		changes[fmt.Sprint("change ", kind)] = e.failing(t, g, kind)
	}
	changes["DeleteVerticesOn"] = func() error { return g.DeleteVerticesOn(o.s, o.from.Sub(0, 1)) }
	fs.set(func() { fs.full = true })
	for what, change := range changes {
		if err := change(); !errors.Is(err, errDisk) || errors.Is(err, ErrFailed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	sameArcs(t, "the disk is full", g, want)
	fs.set(func() { fs.full, fs.badWrite = false, true })
	if _, err := g.Insert(t.Context(), e.to, e.to, e.weights, nil); !errors.Is(err, ErrFailed) {
		t.Errorf("a change whose write fails: %v", err)
	}
	fs.set(func() { fs.badWrite = false })
	changes["Clear"] = func() error { return g.Clear(t.Context()) }
	changes["Sync"] = func() error { return g.Sync(t.Context()) }
	for what, change := range changes {
		if err := change(); !errors.Is(err, ErrFailed) {
			t.Errorf("%s after a failed write: %v", what, err)
		}
	}
	for what, err := range tableLookups(t, g.(weightedTable), o) {
		if errors.Is(err, ErrFailed) == reads {
			t.Errorf("%s after a failed write: %v, with ReadAfterFailure %v", what, err, reads)
		}
	}
	if err := g.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("Close: %v", err)
	}
	g = openTableGraph(t, fs, make, Options{})
	sameArcs(t, "opened again", g, want)
	must(t, g.Close())
}

// If the effects of a change cannot be read from the device, the store fails. If Clear has not
// begun, it does not.
func TestSlabGraphUnknownEffects(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev, e := devicetest.OpenSim(t, &sim.Options{Arch: 90}), hub()
	make := func() (tableGraph, error) { return newTableGraph(dev, true, slab.GraphOptions{Seed: 1}) }
	lost := 0
	for n := range 30 {
		fs := newMemoryFS(nil)
		g := openTableGraph(t, fs, make, Options{ReadAfterFailure: true})
		o := e.upload(t, devicetest.NewStream(t, dev))
		must(t, g.InsertOn(o.s, o.from.Sub(0, 9), o.to.Sub(0, 9), o.weights.Sub(0, 9), device.Slice[bool]{}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		must(t, g.(weightedTable).View(t.Context(), o.s, func(slab.GraphRef) error {
			if err := g.Clear(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Clear: %v", err)
			}
			return nil
		}))
		cancel()
		before, err := arcsOf(g)
		must(t, err, g.Sync(t.Context()))
		if n == 0 {
			devicetest.FailNext(dev, devicetest.OpCopyOut)
			err = g.DeleteOn(o.s, o.from, o.to, device.Slice[bool]{})
		} else { // the change fails, and then perhaps the lookup of its edges
			devicetest.FailNext(dev, devicetest.OpAlloc)
			devicetest.FailAfter(dev, n)
			err = g.InsertOn(o.s, o.from, o.to, o.weights, device.Slice[bool]{})
		}
		devicetest.ClearFailures(dev)
		failed := errors.Is(err, ErrFailed)
		if n == 0 && !failed {
			t.Errorf("DeleteOn: %v", err)
		}
		after, err := arcsOf(g)
		must(t, err)
		if failed {
			after = before
			lost++
		}
		if err := g.Close(); (err != nil) != failed {
			t.Fatalf("Close: %v", err)
		}
		g = openTableGraph(t, fs, make, Options{})
		got, err := arcsOf(g)
		must(t, err)
		sameEdges(t, fmt.Sprintf("operation %d", n), false, got, after, after)
		must(t, g.Close())
	}
	if lost < 3 {
		t.Errorf("only %d changes had unknown effects", lost)
	}
}

// set changes fields of the file system.
func (m *memoryFS) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// tableLookups returns the errors of all lookups.
func tableLookups(t *testing.T, g weightedTable, o onDevice) map[string]error {
	ctx, one, n := t.Context(), []uint32{0}, o.from.Len()
	out := func() device.Slice[uint32] { return devicetest.Upload(t, o.s, make([]uint32, n)) }
	offsets := devicetest.Upload(t, o.s, make([]uint64, n+1))
	degrees, rowsOut := out(), out()
	_, has := g.Has(ctx, one, one, nil)
	_, weight := g.Weight(ctx, one, one, make([]float32, 1), nil)
	_, _, _, rows := g.Rows(ctx, one)
	_, neighbors := g.Neighbors(ctx, 0, nil)
	_, csr := g.CSR(ctx)
	_, triangles := g.Triangles(ctx)
	var pages error
	for _, err := range g.Pages(ctx) {
		pages = err
	}
	all := map[string]error{
		"Has": has, "Weight": weight, "Rows": rows, "Neighbors": neighbors, "CSR": csr, "Triangles": triangles, "Pages": pages,
		"Degree": g.Degree(ctx, one, make([]uint32, 1)), "Save": g.Save(ctx, io.Discard),
		"HasOn": g.HasOn(o.s, o.from, o.to, o.ok), "WeightOn": g.WeightOn(o.s, o.from, o.to, o.weights, o.ok),
		"DegreeOn": g.DegreeOn(o.s, o.from, degrees), "RowsOn": g.RowsOn(o.s, o.from, degrees, offsets, rowsOut, o.weights),
		"View": g.View(ctx, o.s, func(slab.GraphRef) error { return nil }),
	}
	must(t, o.s.Sync(ctx))
	return all
}
