package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	graphs "github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/slab"
)

// tableVertices is the number of vertices in tests of graphs of package slab.
const tableVertices = 60

// tableGraph is a graph of package slab. A graph without weights ignores weights.
type tableGraph interface {
	Structure
	Insert(ctx context.Context, from, to []uint32, w []float32, ok []bool) (int, error)
	InsertOn(s *device.Stream, from, to device.Slice[uint32], w device.Slice[float32], ok device.Slice[bool], counts ...device.Slice[uint64]) error
	Apply(ctx context.Context, kinds []weft.OpKind, from, to []uint32, w []float32, ok []bool) (int, error)
	ApplyOn(s *device.Stream, kinds device.Slice[uint8], from, to device.Slice[uint32], w device.Slice[float32], ok device.Slice[bool], counts ...device.Slice[uint64]) error
	InsertCSR(ctx context.Context, c *graphs.Weighted[float32]) (int, error)
	Rows(ctx context.Context, vertices []uint32) ([]uint64, []uint32, []float32, error)

	Delete(ctx context.Context, from, to []uint32, ok []bool) (int, error)
	DeleteOn(s *device.Stream, from, to device.Slice[uint32], ok device.Slice[bool], counts ...device.Slice[uint64]) error
	DeleteVertices(ctx context.Context, vertices []uint32) (int, error)
	DeleteVerticesOn(s *device.Stream, vertices device.Slice[uint32], counts ...device.Slice[uint64]) error
	Has(ctx context.Context, from, to []uint32, ok []bool) (int, error)
	Save(ctx context.Context, to io.Writer) error
	Load(ctx context.Context, from io.Reader) error
	Clear(ctx context.Context) error
	Compact(ctx context.Context) error
	Check(ctx context.Context) error
	Sync(ctx context.Context) error
	Directed() bool
	Arcs() int
	Device() device.Device
}

type weightedTable struct{ *slab.WeightedGraph[float32] }

type plainTable struct{ *slab.Graph }

func (g plainTable) Insert(ctx context.Context, from, to []uint32, _ []float32, ok []bool) (int, error) {
	return g.Graph.Insert(ctx, from, to, ok)
}

func (g plainTable) InsertOn(s *device.Stream, from, to device.Slice[uint32], _ device.Slice[float32], ok device.Slice[bool], counts ...device.Slice[uint64]) error {
	return g.Graph.InsertOn(s, from, to, ok, counts...)
}

func (g plainTable) Apply(ctx context.Context, kinds []weft.OpKind, from, to []uint32, _ []float32, ok []bool) (int, error) {
	return g.Graph.Apply(ctx, kinds, from, to, ok)
}

func (g plainTable) ApplyOn(s *device.Stream, kinds device.Slice[uint8], from, to device.Slice[uint32], _ device.Slice[float32], ok device.Slice[bool], counts ...device.Slice[uint64]) error {
	return g.Graph.ApplyOn(s, kinds, from, to, ok, counts...)
}

func (g plainTable) InsertCSR(ctx context.Context, c *graphs.Weighted[float32]) (int, error) {
	return g.Graph.InsertCSR(ctx, c.CSR)
}

func (g plainTable) Rows(ctx context.Context, vertices []uint32) ([]uint64, []uint32, []float32, error) {
	offsets, ids, err := g.Graph.Rows(ctx, vertices)
	return offsets, ids, make([]float32, len(ids)), err
}

func newTableGraph(dev device.Device, weighted bool, o slab.GraphOptions) (tableGraph, error) {
	if weighted {
		g, err := slab.NewWeightedGraph[float32](dev, &o)
		return weightedTable{g}, err
	}
	g, err := slab.NewGraph(dev, &o)
	return plainTable{g}, err
}

// openTableGraph opens a graph on a file system. Its log has small frames if the test calls small.
func openTableGraph(t testing.TB, fs fileSystem, make func() (tableGraph, error), opts Options) tableGraph {
	t.Helper()
	opts, err := opts.check()
	must(t, err)
	g, err := open(t.Context(), fs, nopCloser{}, make, opts)
	must(t, err)
	return g
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

type arc struct{ from, to uint32 }

// arcsOf returns the arcs of a graph and their weights.
func arcsOf(g tableGraph) (map[arc]float32, error) {
	all := make([]uint32, tableVertices)
	for i := range all {
		all[i] = uint32(i)
	}
	offsets, ids, weights, err := g.Rows(context.Background(), all)
	arcs := map[arc]float32{}
	for u := range all {
		for i := offsets[u]; i < offsets[u+1]; i++ {
			arcs[arc{uint32(u), ids[i]}] = weights[i]
		}
	}
	if err == nil && len(arcs) != g.Arcs() {
		err = fmt.Errorf("%d arcs in rows, and %d in all", len(arcs), g.Arcs())
	}
	return arcs, err
}

func sameArcs(t testing.TB, what string, g tableGraph, want map[arc]float32) {
	t.Helper()
	must(t, g.Check(t.Context()))
	got, err := arcsOf(g)
	must(t, err)
	if !maps.Equal(got, want) {
		t.Fatalf("%s: the graph has\n%v, want\n%v", what, got, want)
	}
}

// tableEdges are random edges. Half of them are at vertices 0 to 2, and some are loops.
type tableEdges struct {
	from, to []uint32
	weights  []float32
	kinds    []weft.OpKind
}

func drawEdges(rng *rand.Rand, most int) (e tableEdges) {
	for range 1 + rng.IntN(most) {
		u, v := rng.Uint32N(tableVertices), rng.Uint32N(tableVertices)
		if rng.IntN(2) == 0 {
			u = rng.Uint32N(3)
		}
		e.from, e.to = append(e.from, u), append(e.to, v)
		e.weights = append(e.weights, float32(rng.IntN(1000)))
		e.kinds = append(e.kinds, []weft.OpKind{weft.OpPut, weft.OpDelete}[rng.IntN(2)])
	}
	return e
}

// graph returns a graph with the edges, which is not durable.
func (e tableEdges) graph(t testing.TB, weighted, directed bool) tableGraph {
	g, err := newTableGraph(devicetest.OpenCPU(t, 1), weighted, slab.GraphOptions{Directed: directed})
	must(t, err)
	t.Cleanup(func() { must(t, g.Close()) })
	_, err = g.Insert(t.Context(), e.from, e.to, e.weights, nil)
	must(t, err)
	return g
}

// onDevice are edges in device memory, with room for results.
type onDevice struct {
	s        *device.Stream
	from, to device.Slice[uint32]
	weights  device.Slice[float32]
	kinds    device.Slice[uint8]
	ok       device.Slice[bool]
	count    device.Slice[uint64]
}

func (e tableEdges) upload(t testing.TB, s *device.Stream) onDevice {
	return onDevice{
		s, devicetest.Upload(t, s, e.from), devicetest.Upload(t, s, e.to), devicetest.Upload(t, s, e.weights),
		devicetest.Upload(t, s, device.Bytes(e.kinds)), devicetest.Upload(t, s, make([]bool, len(e.from))), devicetest.Upload(t, s, []uint64{0}),
	}
}

// changeOn runs a change from device memory and returns its results.
func (e tableEdges) changeOn(t testing.TB, g tableGraph, kind int) (n int, ok []bool, err error) {
	o := e.upload(t, devicetest.NewStream(t, g.Device()))
	switch kind {
	case 0:
		err = g.InsertOn(o.s, o.from, o.to, o.weights, o.ok, o.count)
	case 1:
		err = g.InsertOn(o.s, o.from, o.to, o.weights, device.Slice[bool]{})
	case 2:
		err = g.DeleteOn(o.s, o.from, o.to, o.ok, o.count)
	case 3:
		err = g.DeleteOn(o.s, o.from, o.to, device.Slice[bool]{})
	case 4:
		err = g.ApplyOn(o.s, o.kinds, o.from, o.to, o.weights, o.ok, o.count)
	case 5:
		err = g.DeleteVerticesOn(o.s, o.from.Sub(0, 1), o.count)
	}
	must(t, g.Sync(t.Context()))
	return int(devicetest.Download(t, o.s, o.count)[0]), devicetest.Download(t, o.s, o.ok), err
}

// change runs a change of the given kind and returns its results.
func (e tableEdges) change(t testing.TB, g tableGraph, kind int) (n int, ok []bool, err error) {
	ctx := t.Context()
	ok = make([]bool, len(e.from))
	switch kind {
	default:
		n, err = g.Insert(ctx, e.from, e.to, e.weights, ok)
	case 0, 1:
		n, err = g.Delete(ctx, e.from, e.to, ok)
	case 2, 3:
		n, err = g.Apply(ctx, e.kinds, e.from, e.to, e.weights, ok)
	case 4:
		n, err = g.DeleteVertices(ctx, e.from[:1])
	case 5:
		if err = g.Compact(ctx); len(e.from)%4 == 0 {
			err = errors.Join(err, g.Clear(ctx))
		}
	case 6:
		_, weighted := g.(weightedTable)
		var stream bytes.Buffer
		must(t, e.graph(t, weighted, g.Directed()).Save(ctx, &stream))
		err = g.Load(ctx, &stream)
	case 7:
		c, cerr := e.graph(t, true, g.Directed()).(weightedTable).CSR(ctx)
		must(t, cerr)
		n, err = g.InsertCSR(ctx, c)
	}
	return n, ok, err
}

// Random changes of all kinds, on a durable graph and on one that is not, lead to the same graph,
// also after opening the store again.
func TestSlabGraphs(t *testing.T) {
	small(t)
	steps := map[string]int{"CPU": 60, "GPU": 14}
	for name, dev := range map[string]device.Device{"CPU": devicetest.OpenCPU(t, 2), "GPU": openGPU(t)} {
		for seed := range uint64(4) {
			directed, weighted := seed%2 == 1, seed/2 == 1
			t.Run(fmt.Sprintf("%s, directed %v, weighted %v", name, directed, weighted), func(t *testing.T) {
				if name == "GPU" && testing.Short() {
					t.Skip("interprets kernels")
				}
				slabGraphHistory(t, dev, directed, weighted, steps[name], rand.New(rand.NewPCG(seed, 1)))
			})
		}
	}
}

func slabGraphHistory(t *testing.T, dev device.Device, directed, weighted bool, steps int, rng *rand.Rand) {
	fs := newMemoryFS(nil)
	make := func() (tableGraph, error) {
		return newTableGraph(dev, weighted, slab.GraphOptions{Directed: directed, MaxVertices: tableVertices})
	}
	opts := Options{LogLimit: minLogLimit}
	g := openTableGraph(t, fs, make, opts)
	plain, err := newTableGraph(devicetest.OpenCPU(t, 1), weighted, slab.GraphOptions{Directed: directed, MaxVertices: tableVertices})
	must(t, err)
	defer plain.Close()
	for range steps {
		e, change, kind := drawEdges(rng, 40), tableEdges.change, rng.IntN(12)
		if rng.IntN(2) == 0 {
			change, kind = tableEdges.changeOn, rng.IntN(6)
		}
		n, ok, err := change(e, t, g, kind)
		wantN, wantOK, wantErr := change(e, t, plain, kind)
		must(t, err, wantErr)
		if n != wantN || !slices.Equal(ok, wantOK) {
			t.Fatalf("change %d: %d edges, %v, want %d, %v", kind, n, ok, wantN, wantOK)
		}
		if rng.IntN(6) == 0 {
			must(t, Checkpoint(t.Context(), g))
			if info, err := Status(g); err != nil || info.Pairs != g.Arcs() || info.LogBytes != 0 {
				t.Fatalf("a checkpoint of %d arcs: %+v, %v", g.Arcs(), info, err)
			}
		}
		if rng.IntN(6) == 0 {
			must(t, g.Close())
			g = openTableGraph(t, fs, make, opts)
			want, err := arcsOf(plain)
			must(t, err)
			sameArcs(t, "opened again", g, want)
		}
	}
	must(t, g.Close())
	dev = devicetest.OpenCPU(t, 1)
	g = openTableGraph(t, fs, make, opts)
	want, err := arcsOf(plain)
	must(t, err)
	sameArcs(t, "opened on another device", g, want)
	must(t, g.Close())
}

// tableGraphSubject is a graph that crash tests change.
type tableGraphSubject struct{ weightedTable }

func (g tableGraphSubject) content() string {
	arcs, err := arcsOf(g.weightedTable)
	return fmt.Sprint(arcs, err)
}

func (g tableGraphSubject) change(rng *rand.Rand) (err error) {
	ctx, most := context.Background(), 4
	if rng.IntN(4) == 0 {
		most = 20 // several frames
	}
	e := drawEdges(rng, most)
	switch rng.IntN(10) {
	default:
		_, err = g.Insert(ctx, e.from, e.to, e.weights, nil)
	case 0, 1:
		_, err = g.Delete(ctx, e.from, e.to, nil)
	case 2, 3, 4:
		_, err = g.Apply(ctx, e.kinds, e.from, e.to, e.weights, nil)
	case 5:
		_, err = g.DeleteVertices(ctx, e.from[:1])
	case 6:
		if rng.IntN(4) == 0 {
			err = g.Clear(ctx)
		}
	}
	return err
}

// hub are edges from vertex 0 to all others.
func hub() (e tableEdges) {
	for v := range uint32(tableVertices - 1) {
		e.from, e.to, e.weights = append(e.from, 0), append(e.to, v+1), append(e.weights, float32(v))
		e.kinds = append(e.kinds, []weft.OpKind{weft.OpPut, weft.OpDelete}[v%2])
	}
	return e
}

// Changes, checkpoints and lookups run at the same time. The store then has what the graph has.
func TestSlabGraphConcurrent(t *testing.T) {
	dev, dir := devicetest.OpenCPU(t, 2), t.TempDir()
	make := func() (tableGraph, error) { return newTableGraph(dev, true, slab.GraphOptions{}) }
	g, err := Open(t.Context(), dir, make, Options{Sync: OS, LogLimit: 1 << 14})
	must(t, err)
	var changes, others sync.WaitGroup
	changing, end := context.WithCancel(t.Context())
	for seed := range uint64(3) {
		changes.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 2))
			for range 100 {
				if err := (tableGraphSubject{g.(weightedTable)}).change(rng); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, call := range []func() error{
		func() error { return Checkpoint(t.Context(), g) },
		func() error { return g.Sync(t.Context()) },
		func() error { _, _, _, err := g.Rows(t.Context(), hub().to); return err },
	} {
		others.Go(func() {
			for changing.Err() == nil {
				if err := call(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	changes.Wait()
	end()
	others.Wait()
	want, err := arcsOf(g)
	must(t, err, g.Close())
	g, err = Open(t.Context(), dir, make, Options{})
	must(t, err)
	sameArcs(t, "opened again", g, want)
	must(t, g.Close())
}

// slowFS is a file system that writes checkpoints when hold is closed.
type slowFS struct {
	*memoryFS
	hold chan struct{}
}

func (fs slowFS) Create(name string) (file, error) {
	f, err := fs.memoryFS.Create(name)
	if strings.HasPrefix(name, "checkpoint") {
		f = slowFile{f, fs.hold}
	}
	return f, err
}

type slowFile struct {
	file
	hold chan struct{}
}

func (f slowFile) WriteAt(b []byte, at int64) (int, error) {
	<-f.hold
	return f.file.WriteAt(b, at)
}

// While a checkpoint is written, changes wait as long as their contexts, and lookups do not wait.
// Close waits for the checkpoint. After Close, changes write nothing.
func TestSlabGraphHeldCheckpoint(t *testing.T) {
	dev, e := devicetest.OpenCPU(t, 1), hub()
	fs := slowFS{newMemoryFS(nil), newToken()}
	make := func() (tableGraph, error) { return newTableGraph(dev, true, slab.GraphOptions{}) }
	g := openTableGraph(t, fs, make, Options{})
	insert := func(ctx context.Context) error {
		_, err := g.Insert(ctx, e.from, e.to, e.weights, nil)
		return err
	}
	must(t, insert(t.Context()))
	want, err := arcsOf(g)
	must(t, err)
	checkpoint, closed := newErrors(), newErrors()
	go func() { checkpoint <- Checkpoint(context.Background(), g) }()
	partial := &weft.PartialError{Done: 1}
	for partial.Done > 0 { // until the checkpoint has the lock
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		if err := insert(ctx); err != nil && (!errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &partial)) {
			t.Fatal(err)
		}
		cancel()
	}
	sameArcs(t, "during the checkpoint", g, want)
	go func() { closed <- g.Close() }()
	close(fs.hold)
	if err := <-checkpoint; err != nil && !errors.Is(err, weft.ErrClosed) {
		t.Error(err)
	}
	must(t, <-closed, g.Close())
	files := fs.files()
	if err := insert(t.Context()); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("a change after Close: %v", err)
	}
	if err := Checkpoint(t.Context(), g); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("Checkpoint after Close: %v", err)
	}
	if !maps.EqualFunc(fs.files(), files, bytes.Equal) {
		t.Error("files changed after Close")
	}
	g = openTableGraph(t, fs, make, Options{})
	sameArcs(t, "opened again", g, want)
	must(t, g.Close())
}

// (It is a function because these tests have variables named make.)
func newErrors() chan error { return make(chan error, 1) }

// The types and the direction of a store are those that it was made with. Its vertices must fit.
func TestSlabGraphRefused(t *testing.T) {
	small(t)
	dev, e := devicetest.OpenCPU(t, 1), hub()
	for _, checkpoint := range []bool{false, true} {
		fs := newMemoryFS(nil)
		g := openTableGraph(t, fs, func() (tableGraph, error) { return newTableGraph(dev, true, slab.GraphOptions{Directed: true}) }, Options{})
		_, _, err := e.change(t, g, 11)
		if must(t, err); checkpoint {
			must(t, Checkpoint(t.Context(), g))
		}
		must(t, g.Close())
		opts, err := Options{}.check()
		must(t, err)
		for _, c := range []struct {
			weighted bool
			opts     slab.GraphOptions
			want     error
		}{
			{true, slab.GraphOptions{}, weft.ErrFormat},
			{false, slab.GraphOptions{Directed: true}, weft.ErrFormat},
			{true, slab.GraphOptions{Directed: true, MaxVertices: tableVertices - 1}, weft.ErrOptions},
			{true, slab.GraphOptions{Directed: true, MaxVertices: tableVertices}, nil},
		} {
			g, err := open(t.Context(), fs, nopCloser{}, func() (tableGraph, error) { return newTableGraph(dev, c.weighted, c.opts) }, opts)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("opened with %+v: %v, want %v", c, err, c.want)
			}
			if err == nil {
				must(t, g.Close())
			}
		}
		if holds := fs.files()[manifestName]; !bytes.Contains(holds, []byte("a directed graph with float32 weights, in tables")) {
			t.Errorf("%s", holds)
		}
	}
}
