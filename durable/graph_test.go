package durable

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
)

// compareRows makes the same random changes in a durable graph and in another one, and opens the
// store again and again.
func compareRows(t *testing.T, k graphKind, dev device.Device, seed uint64, rounds, changes int) {
	fs := newMemoryFS(nil)
	host := devicetest.OpenCPU(t, 1)
	twin, err := k.make(host, k.Options)
	if err != nil {
		t.Fatal(err)
	}
	defer twin.Close()
	s, hostStream := devicetest.NewStream(t, dev), devicetest.NewStream(t, host)
	r1, r2 := rand.New(rand.NewPCG(seed, 4)), rand.New(rand.NewPCG(seed, 4))
	for round := range rounds {
		g := openRows(t, fs, k, dev, Options{LogLimit: 1 << 13, Sync: OS})
		for i := range changes {
			if err := errors.Join(anyChange(t, g, s, host, r1), anyChange(t, twin, hostStream, host, r2)); err != nil {
				t.Fatalf("round %d, change %d: %v", round, i, err)
			}
			if i == changes/2 && round%2 == 0 {
				if err := Checkpoint(t.Context(), g); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := errors.Join(g.Sync(t.Context()), twin.Sync(t.Context())); err != nil {
			t.Fatal(err)
		}
		want := twin.content()
		if got := g.content(); got != want {
			t.Fatalf("round %d: the graph has\n%s, its twin\n%s", round, got, want)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		g = openRows(t, fs, k, host, Options{})
		if got := g.content(); got != want {
			t.Fatalf("round %d: the store has\n%s, want\n%s", round, got, want)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A store has what a graph has after the same changes of any kind.
func TestRowGraphs(t *testing.T) {
	small(t)
	for i, k := range graphKinds() {
		t.Run(k.name, func(t *testing.T) { compareRows(t, k, devicetest.OpenCPU(t, 2), uint64(i), 8, 20) })
	}
	if testing.Short() {
		return
	}
	for i, k := range graphKinds() {
		t.Run("GPU, "+k.name, func(t *testing.T) {
			compareRows(t, k, openGPU(t), uint64(i), 2, 10)
		})
	}
}

// Changes join when they are replayed, but vertices stay that one change inserts and another one
// leaves without edges. An edge that one batch inserts and deletes inserts no vertices.
func TestRowGraphVertices(t *testing.T) {
	small(t)
	fs, dev, k, ctx := newMemoryFS(nil), smallHost{devicetest.OpenCPU(t, 1)}, graphKinds()[0], t.Context()
	g := openRows(t, fs, k, dev, Options{})
	put, both := []weft.OpKind{weft.OpPut, weft.OpPut}, []weft.OpKind{weft.OpPut, weft.OpDelete}
	for _, e := range []edgeList{
		{from: []uint32{1, 3}, to: []uint32{2, 4}, kinds: put},
		{from: []uint32{2, 2}, to: []uint32{2, 1}, kinds: both}, // the loop is dropped
		{from: []uint32{5, 6}, to: []uint32{6, 5}, kinds: both},
		{from: []uint32{3, 3}, to: []uint32{4, 4}, kinds: both},
	} {
		if err := g.apply(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	const want = "[1 2 3 4] []"
	if got := g.content(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	g = openRows(t, fs, k, dev, Options{})
	if got := g.content(); got != want {
		t.Errorf("the store has %s, want %s", got, want)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
}

// endsAtWrite is a context that ends when more bytes than most have been written after an event.
type endsAtWrite struct {
	context.Context
	fs          *memoryFS
	after, most int
}

func (c endsAtWrite) Err() error {
	c.fs.mu.Lock()
	defer c.fs.mu.Unlock()
	written := 0
	for _, e := range c.fs.events[c.after:] {
		written += len(e.data)
	}
	if written > c.most {
		return context.Canceled
	}
	return nil
}

// A large batch that ends between two pieces leaves in the store what it leaves in the graph. The
// first piece inserts vertices that have no edges after the second piece.
func TestRowGraphPieces(t *testing.T) {
	const vertices, operations = 1 << 10, 1_060_000
	dev, ctx, rng, fs := devicetest.OpenCPU(t, 2), t.Context(), rand.New(rand.NewPCG(1, 6)), newMemoryFS(nil)
	k := graphKind{make: graphKinds()[6].make, Options: graph.Options{MaxVertices: vertices, Multi: true}}
	g := openRows(t, fs, k, dev, Options{})
	e := drawEdgeList(rng, vertices-2, operations)
	for _, i := range []int{0, 600_000} {
		e.from[i], e.to[i] = vertices-2, vertices-1
	}
	e.kinds[0], e.kinds[600_000] = weft.OpPut, weft.OpDelete
	// Of the first piece, only the deletions are written before the second one runs: 2.1 MB.
	err := g.apply(endsAtWrite{ctx, fs, len(fs.events), 3 << 20}, e)
	partial := (*weft.PartialError)(nil)
	if !errors.Is(err, context.Canceled) || !errors.As(err, &partial) || partial.Done != 1<<20 || g.inner().Vertices() != vertices {
		t.Errorf("%d vertices, %v", g.inner().Vertices(), err)
	}
	saved := func() []byte {
		var file bytes.Buffer
		if err := errors.Join(g.inner().Save(ctx, &file), g.Close()); err != nil {
			t.Fatal(err)
		}
		return file.Bytes()
	}
	want := saved()
	g = openRows(t, fs, k, dev, Options{})
	if !bytes.Equal(saved(), want) {
		t.Error("the store has another graph")
	}
}

// Changes that another goroutine makes while a checkpoint is written are in the store, once.
func TestRowGraphCheckpoints(t *testing.T) {
	dev, ctx := smallHost{devicetest.OpenCPU(t, 2)}, t.Context()
	for _, k := range graphKinds()[4:6] {
		fs, r1, r2 := newMemoryFS(nil), rand.New(rand.NewPCG(7, 7)), rand.New(rand.NewPCG(7, 7))
		twin, err := k.make(dev, k.Options)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 10 {
			g := openRows(t, fs, k, dev, Options{Sync: OS})
			if got, want := g.content(), twin.content(); got != want {
				t.Fatalf("%s, round %d: the store has\n%s, want\n%s", k.name, round, got, want)
			}
			var wait sync.WaitGroup
			var n atomic.Int64
			var ended atomic.Bool
			wait.Go(func() {
				for ; !ended.Load(); n.Add(1) {
					if err := changeGraph(g, r1, 40, 100); err != nil {
						t.Error(err)
					}
				}
			})
			for n.Load() < 5 {
				runtime.Gosched()
			}
			err := Checkpoint(ctx, g)
			ended.Store(true)
			wait.Wait()
			for range n.Load() {
				err = errors.Join(err, changeGraph(twin, r2, 40, 100))
			}
			if err = errors.Join(err, g.Close()); err != nil {
				t.Fatal(err)
			}
		}
		if err := twin.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// rowChanges are changes of all kinds. Each changes the graph.
func rowChanges(ctx context.Context, g rowGraph) map[string]func() error {
	many := edgeList{kinds: slices.Repeat([]weft.OpKind{weft.OpPut}, 90)}
	for i := range uint32(90) {
		many.from, many.to, many.weights = append(many.from, i), append(many.to, i+1), append(many.weights, 7)
	}
	return map[string]func() error{
		"Insert":         func() error { return g.insert(ctx, many) },
		"Apply":          func() error { return g.apply(ctx, many) },
		"Delete":         func() error { _, err := g.inner().Delete(ctx, many.from, many.to, nil); return err },
		"InsertVertices": func() error { _, err := g.inner().InsertVertices(ctx, many.from); return err },
		"DeleteVertices": func() error { _, err := g.inner().DeleteVertices(ctx, many.from); return err },
		"Clear":          func() error { return g.inner().Clear(ctx) },
	}
}

// A full disk refuses a change before anything happens. A failed write ends the store.
func TestRowGraphFailures(t *testing.T) {
	small(t)
	dev, ctx := smallHost{devicetest.OpenCPU(t, 1)}, t.Context()
	for i, k := range graphKinds()[2:5] {
		fs, reads := newMemoryFS(nil), i == 1
		g := openRows(t, fs, k, dev, Options{ReadAfterFailure: reads})
		if err := g.insert(ctx, edgeList{from: []uint32{1, 2}, to: []uint32{2, 3}, weights: []uint64{5, 6}}); err != nil {
			t.Fatal(err)
		}
		snapshot, err := g.inner().Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		before := g.content()
		fail := func(full, badWrite bool) {
			fs.mu.Lock()
			defer fs.mu.Unlock()
			fs.full, fs.badWrite = full, badWrite
		}
		fail(true, false)
		for what, change := range rowChanges(ctx, g) {
			if what == "Clear" {
				continue // takes so little space that it may still run
			}
			if err := change(); !errors.Is(err, errDisk) || errors.Is(err, ErrFailed) {
				t.Errorf("%s, on a full disk: %v", what, err)
			}
		}
		if got := g.content(); got != before {
			t.Errorf("after changes that were refused: %s, before %s", got, before)
		}
		fail(false, true)
		if err := rowChanges(ctx, g)["Insert"](); !errors.Is(err, ErrFailed) || !errors.Is(err, errDisk) {
			t.Errorf("the change returns %v", err)
		}
		fail(false, false)
		for what, change := range rowChanges(ctx, g) {
			if err := change(); !errors.Is(err, ErrFailed) {
				t.Errorf("%s, later: %v", what, err)
			}
		}
		_, has := g.inner().Has(ctx, []uint32{1}, []uint32{2}, nil)
		_, old := snapshot.Has(ctx, []uint32{1}, []uint32{2}, nil)
		_, rows := g.inner().CSR(ctx)
		for what, err := range map[string]error{"Has": has, "Has of a snapshot": old, "CSR": rows, "Save": g.inner().Save(ctx, &bytes.Buffer{})} {
			if errors.Is(err, ErrFailed) == reads || reads && err != nil {
				t.Errorf("%s returns %v, with ReadAfterFailure %v", what, err, reads)
			}
		}
		if err := errors.Join(snapshot.Close(), g.inner().Sync(ctx)); !errors.Is(err, ErrFailed) {
			t.Errorf("Sync returns %v", err)
		}
		if err := g.Close(); !errors.Is(err, ErrFailed) {
			t.Errorf("Close returns %v", err)
		}
		g = openRows(t, fs, k, dev, Options{})
		if got := g.content(); got != before {
			t.Errorf("the store has %s, want %s", got, before)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Calls that change nothing log nothing. A store opens only with the options that it was made with.
func TestRowGraphRefused(t *testing.T) {
	dev, ctx, fs, kinds := smallHost{devicetest.OpenCPU(t, 1)}, t.Context(), newMemoryFS(nil), graphKinds()
	g := openRows(t, fs, kinds[0], dev, Options{})
	e := edgeList{from: []uint32{1, 60}, to: []uint32{60, 3}, kinds: []weft.OpKind{weft.OpPut, weft.OpDelete}}
	if err := errors.Join(g.insert(ctx, e), g.apply(ctx, e)); err != nil {
		t.Fatal(err)
	}
	frames := func() uint64 {
		info, err := Status(g)
		if err != nil {
			t.Fatal(err)
		}
		return info.Frames
	}
	before := frames()
	same := edgeList{from: e.from[:1], to: e.to[:1], kinds: e.kinds[:1]}
	_, deleted := g.inner().Delete(ctx, []uint32{7, 1 << 20}, []uint32{8, 1}, nil)
	_, inserted := g.inner().InsertVertices(ctx, []uint32{1, 3})
	_, gone := g.inner().DeleteVertices(ctx, []uint32{50})
	if err := errors.Join(g.insert(ctx, same), g.apply(ctx, same), deleted, inserted, gone, g.insert(ctx, edgeList{})); err != nil {
		t.Error(err)
	}
	err := g.apply(ctx, edgeList{from: []uint32{5, 6}, to: []uint32{6, 100}, kinds: []weft.OpKind{weft.OpPut, weft.OpPut}})
	if !errors.Is(err, weft.ErrOptions) || frames() != before {
		t.Errorf("%d frames, before %d: %v", frames(), before, err)
	}
	opened := func(k graphKind) error {
		opts, err := Options{}.check()
		if err != nil {
			t.Fatal(err)
		}
		_, err = open(ctx, fs, nopCloser{}, func() (rowGraph, error) { return k.make(dev, k.Options) }, opts)
		return err
	}
	narrow, notEmpty := kinds[0], kinds[0]
	narrow.MaxVertices = 50
	notEmpty.make = func(dev device.Device, o graph.Options) (rowGraph, error) {
		g, err := newPlainRows(dev, o)
		if err == nil {
			_, err = g.InsertVertices(ctx, []uint32{5})
		}
		return g, err
	}
	for _, checkpoint := range []bool{true, false} {
		if checkpoint {
			err = Checkpoint(ctx, g)
		}
		if err := errors.Join(err, g.Close()); checkpoint && err != nil {
			t.Fatal(err)
		}
		for _, k := range kinds[1:] {
			if err := opened(k); !errors.Is(err, weft.ErrFormat) {
				t.Errorf("%s: %v", k.name, err)
			}
		}
		for _, k := range []graphKind{narrow, notEmpty} {
			if err := opened(k); !errors.Is(err, weft.ErrOptions) {
				t.Errorf("MaxVertices %d, or not empty: %v", k.MaxVertices, err)
			}
		}
		g = openRows(t, fs, kinds[0], dev, Options{})
		if got, want := g.content(), "[1 3 60] [1-60:]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
}

// The syncs of checkpoints and recoveries are needed for graphs, too, whose effects must not be
// repeated.
func TestRowGraphOmittedSyncs(t *testing.T) {
	if testing.Short() {
		t.Skip("opens thousands of stores")
	}
	small(t)
	dev := devicetest.OpenCPU(t, 1)
	run := func(seed uint64, omit string) (*crashes, error) {
		c := &crashes{make: subjects(dev)["graph"], opts: Options{LogLimit: 4096}, rng: rand.New(rand.NewPCG(seed, 2)), omit: omit, sites: map[string]bool{}}
		if seed%4 == 3 {
			return c, c.run(15, 4, 1)
		}
		return c, c.run(15, 1, 0)
	}
	c, err := run(3, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, site := range slices.Sorted(maps.Keys(c.sites)) {
		if !strings.Contains(site, "(*store)") {
			continue
		}
		t.Run(site, func(t *testing.T) {
			for seed := range uint64(100) {
				if _, err := run(seed, site); err != nil {
					return
				}
			}
			t.Error("nothing is lost without it")
		})
	}
}
