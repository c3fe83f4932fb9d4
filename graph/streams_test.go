package graph

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/mutate"
)

// pendingCall is a call on a stream, its expected result, and the memory of its result.
type pendingCall struct {
	s     *device.Stream
	ok    device.Slice[bool]
	want  []bool
	count device.Slice[uint64]
	total uint64
	what  string
}

// testStreams runs batches from host memory and batches on three streams without waiting, with
// snapshots between them. Each call must have the result that the order of calls implies.
func testStreams(t testing.TB, dev device.Device, o Options, seed uint64, calls int) {
	ctx := t.Context()
	g, err := NewWeightedGraph[uint32](dev, &o)
	must(t, err)
	p := &player[uint32]{t, rand.New(rand.NewPCG(seed, 9)), g, newModel[uint32](o), 20, 30, nil}
	var streams []*device.Stream
	for range 3 {
		s, err := dev.NewStream()
		must(t, err)
		streams = append(streams, s)
	}
	var all []pendingCall
	var free []func() error
	for i := range calls {
		if i%5 == 3 {
			p.step()
			continue
		}
		a, columns := p.ask(streams[p.r.IntN(3)], i)
		all, free = append(all, a), append(free, columns)
	}
	for _, a := range all {
		got, total := make([]bool, len(a.want)), make([]uint64, 1)
		must(t, a.ok.CopyTo(ctx, a.s, got))
		must(t, a.count.CopyTo(ctx, a.s, total))
		if !slices.Equal(got, a.want) || total[0] != a.total {
			t.Fatalf("%s: %v, %d in all, want %v, %d", a.what, got, total, a.want, a.total)
		}
	}
	must(t, g.Sync(ctx))
	must(t, g.Check(ctx))
	for _, f := range free {
		must(t, f())
	}
	p.close()
	for _, s := range streams {
		must(t, s.Close())
	}
}

func (p *player[W]) ask(s *device.Stream, i int) (a pendingCall, free func() error) {
	n := 1 + p.r.IntN(p.batch)
	kinds, from, to, vals := make([]uint8, n), make([]uint32, n), make([]uint32, n), make([]W, n)
	a = pendingCall{s: s, want: make([]bool, n)}
	operation := p.r.IntN(3)
	for i := range n {
		from[i], to[i], vals[i] = p.vertex(), p.vertex(), W(p.r.Uint32())
		kind := weft.OpPut
		if p.r.IntN(2) == 0 {
			kind = weft.OpDelete
		}
		kinds[i] = uint8(kind)
		switch operation {
		case 0:
			_, a.want[i] = p.m.edges[p.m.key(from[i], to[i])]
		case 1:
			a.want[i] = p.m.apply(weft.OpPut, from[i], to[i], vals[i])
		default:
			a.want[i] = p.m.apply(kind, from[i], to[i], vals[i])
		}
		if a.want[i] {
			a.total++
		}
	}
	p.m.markLive()
	u, v, w, k := upload(p.TB, s, from), upload(p.TB, s, to), upload(p.TB, s, vals), upload(p.TB, s, kinds)
	a.ok, a.count = upload(p.TB, s, make([]bool, n)), upload(p.TB, s, make([]uint64, 1))
	a.what = fmt.Sprintf("call %d, %s of %d edges", i, []string{"HasOn", "InsertOn", "ApplyOn"}[operation], n)
	switch operation {
	case 0:
		must(p.TB, p.g.HasOn(s, u, v, a.ok, a.count))
	case 1:
		must(p.TB, p.g.InsertOn(s, u, v, w, a.ok, a.count))
	default:
		must(p.TB, p.g.ApplyOn(s, k, u, v, w, a.ok, a.count))
	}
	return a, func() error {
		return errors.Join(u.Free(), v.Free(), w.Free(), k.Free(), a.ok.Free(), a.count.Free())
	}
}

// TestStreams checks the results of calls on several streams under random schedules and weak
// memory.
func TestStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	for i, scheduler := range []sim.Scheduler{sim.Random, sim.PCT} {
		for seed := range uint64(1 + i) {
			t.Run(fmt.Sprintf("%v/%d", scheduler, seed), func(t *testing.T) {
				dev := devicetest.OpenSim(t, &sim.Options{Scheduler: scheduler, Seed: seed, Races: true})
				testStreams(t, dev, allOptions[2*i], seed, 8)
			})
		}
	}
}

// TestStreamAfterCompaction makes rows longer on a stream after a compaction, which leaves stacks
// without memory. After the wait of the first batch, the host makes stacks for the blocks that the
// batch frees, and then all other stacks. The next batch sends all stacks to the device, which may
// not yet have read the stacks of the first batch.
func TestStreamAfterCompaction(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	ctx, dev := t.Context(), devicetest.OpenSim(t, nil)
	g, err := New(dev, &Options{Directed: true})
	must(t, err)
	const rows, more = 60, 20
	var from, to []uint32
	for u := range uint32(rows) { // lengths differ, so that blocks have several classes
		for v := range u {
			from, to = append(from, u), append(to, v)
		}
	}
	_, err = g.Insert(ctx, from, to, nil)
	must(t, err)
	must(t, g.Compact(ctx))
	s, err := dev.NewStream()
	must(t, err)
	free := []func() error{g.Close, s.Close}
	longer := []uint32{30, 38}
	for _, u := range longer {
		ends := make([]uint32, more)
		for v := range ends {
			ends[v] = rows + uint32(v)
		}
		u, v := upload(t, s, slices.Repeat([]uint32{u}, more)), upload(t, s, ends)
		free = append(free, u.Free, v.Free)
		must(t, g.InsertOn(s, u, v, device.Slice[bool]{}))
	}
	must(t, g.Sync(ctx))
	must(t, g.Check(ctx))
	if want := len(from) + len(longer)*more; g.Edges() != want {
		t.Errorf("%d edges, want %d", g.Edges(), want)
	}
	for _, f := range free {
		must(t, f())
	}
}

// testOrder runs each operation of the host on a graph right after a batch on a stream.
func testOrder(t testing.TB, dev device.Device, _ uint64) {
	ctx := t.Context()
	from, to := make([]uint32, 40), make([]uint32, 40)
	for i := range from {
		from[i], to[i] = uint32(i%3), uint32(i+3)
	}
	s, err := dev.NewStream()
	must(t, err)
	u, v := upload(t, s, from), upload(t, s, to)
	none := device.Slice[bool]{}
	save := func(g *Graph, vertices int) {
		var file bytes.Buffer
		must(t, g.Save(ctx, &file))
		other, err := New(dev, nil)
		must(t, err)
		must(t, other.Load(ctx, &file))
		if other.Edges() != 40 || other.Vertices() != vertices {
			t.Fatalf("%d edges and %d vertices were saved, want 40 and %d", other.Edges(), other.Vertices(), vertices)
		}
		must(t, other.Close())
	}
	want := func(n int, err error, edges int) {
		t.Helper()
		must(t, err)
		if n != edges {
			t.Fatalf("%d, want %d", n, edges)
		}
	}
	for name, do := range map[string]func(g *Graph){
		"Clear": func(g *Graph) {
			must(t, g.DeleteOn(s, u, v, none))
			must(t, g.InsertOn(s, u, v, none))                       // takes free blocks
			must(t, g.DeleteOn(s, u.Sub(0, 30), v.Sub(0, 30), none)) // frees some of these blocks
			must(t, g.Clear(ctx))
			want(g.Edges(), nil, 0)
		},
		"Insert": func(g *Graph) {
			n, err := g.Insert(ctx, to, from, nil)
			want(n, err, 0)
			must(t, g.DeleteOn(s, u, v, none))
			// The edges must not overwrite memory from which the previous batch still reads its
			// edges.
			n, err = g.Insert(ctx, to, from, nil)
			want(n, err, 40)
		},
		"Compact": func(g *Graph) { must(t, g.Compact(ctx)) },
		"Check":   func(*Graph) {},
		"Sync": func(g *Graph) {
			must(t, g.Sync(ctx))
			want(g.Vertices(), nil, 43)
		},
		"CSR": func(g *Graph) {
			c, err := g.CSR(ctx)
			must(t, err)
			want(c.Edges(), nil, 40)
		},
		"CSROn": func(g *Graph) {
			other, err := dev.NewStream()
			must(t, err)
			there, err := g.CSROn(ctx, other)
			must(t, err)
			c, err := there.Download(ctx, s)
			must(t, err)
			if row := c.Neighbors(3); !slices.Equal(row, []uint32{0}) {
				t.Fatalf("vertex 3 has neighbors %v", row)
			}
			view, err := there.Oriented(ctx, other)
			must(t, err)
			want(view.Arcs(), nil, 40)
			must(t, errors.Join(view.Free(), there.Free(), other.Close()))
		},
		"CSROn, with weights": func(*Graph) {
			g, err := NewWeightedGraph[uint32](dev, nil)
			must(t, err)
			must(t, g.InsertOn(s, u, v, v, none))
			there, err := g.CSROn(ctx, s)
			must(t, err)
			c, err := there.Download(ctx, s)
			must(t, err)
			for i, w := range c.AllWeights() {
				if from, to := w%3, w; c.Targets()[i] != from && c.Targets()[i] != to {
					t.Fatalf("the edge to %d has weight %d", c.Targets()[i], w)
				}
			}
			must(t, errors.Join(there.Free(), g.Close()))
		},
		"View": func(g *Graph) {
			other, err := dev.NewStream()
			must(t, err)
			degrees := upload(t, other, make([]uint32, 43))
			must(t, other.Sync(ctx))
			must(t, g.View(ctx, other, func(r Ref) error {
				p := rowsParams{graph: r, degrees: degrees.Ptr(), n: 43}
				return device.Launch(other, g.engine.(*gpuEngine).degreesKernel, gpu.Wave(dev, 43), gpu.Block, &p)
			}))
			got := make([]uint32, 43)
			must(t, degrees.CopyTo(ctx, s, got))
			want(int(got[0]), nil, 14)
			must(t, errors.Join(degrees.Free(), other.Close()))
		},
		"Snapshot": func(g *Graph) {
			x, err := g.Snapshot(ctx)
			want(x.Vertices(), err, 43)
			n, err := x.Has(ctx, from, to, nil)
			want(n, err, 40)
			// The snapshot uses their blocks.
			must(t, g.DeleteOn(s, u.Sub(0, 30), v.Sub(0, 30), none))
			must(t, x.Close())
			must(t, g.InsertOn(s, v, u, none))
		},
		"Snapshot, closed at once": func(g *Graph) {
			x, err := g.Snapshot(ctx)
			must(t, err)
			must(t, x.Close())
		},
		"Save": func(g *Graph) { save(g, 43) },
		"Save, a vertex without edges": func(g *Graph) {
			n, err := g.InsertVertices(ctx, []uint32{49})
			want(n, err, 1)
			save(g, 44)
		},
		"beyond": func(g *Graph) {
			err := g.InsertOn(s, v, u, none)
			if err == nil || !strings.Contains(err.Error(), "edge 5 from 50 to 2") {
				t.Fatal(err)
			}
		},
		"vertices": func(g *Graph) {
			n, err := g.InsertVertices(ctx, []uint32{0, 45, 46})
			want(n, err, 2)
			must(t, g.InsertOn(s, v, u, none))
			n, err = g.DeleteVertices(ctx, []uint32{0, 45, 47})
			want(n, err, 2)
			some, count := upload(t, s, []uint32{1, 46, 47}), upload(t, s, make([]uint64, 1))
			must(t, g.DeleteVerticesOn(s, some, count))
			var got [1]uint64
			must(t, count.CopyTo(ctx, s, got[:]))
			want(int(got[0]), errors.Join(some.Free(), count.Free()), 2)
		},
		"few vertices, on a stream": func(g *Graph) {
			forceSweep(g.store, false)
			some, counts := upload(t, s, []uint32{1, 46, 47, 50}), upload(t, s, make([]uint64, 2))
			must(t, g.DeleteVerticesOn(s, some.Sub(0, 3), counts.Sub(0, 1)))
			must(t, g.InsertVerticesOn(s, some.Sub(1, 3), counts.Sub(1, 2)))
			must(t, g.DeleteVerticesOn(s, some.Sub(3, 4), counts.Sub(0, 1))) // not a valid vertex
			var got [2]uint64
			must(t, counts.CopyTo(ctx, s, got[:]))
			want(int(got[0]), nil, 1)
			want(int(got[1]), errors.Join(some.Free(), counts.Free()), 2)
		},
	} {
		g, err := New(dev, &Options{MaxVertices: 50})
		must(t, err)
		if name == "beyond" {
			must(t, s.Sync(ctx))
			must(t, v.Sub(5, 6).CopyFrom(s, []uint32{50}))
		} else {
			must(t, g.InsertOn(s, u, v, none))
		}
		do(g)
		must(t, g.Check(ctx))
		if name == "beyond" {
			must(t, v.Sub(5, 6).CopyFrom(s, to[5:6]))
		}
		must(t, g.Close())
	}
	must(t, u.Free())
	must(t, v.Free())
	must(t, s.Close())
}

// TestOmissionsAreNoticed checks that a test fails without any one of the calls by which the host
// orders streams or waits for them.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	var tries []dst.Try
	for seed := range uint64(3) {
		tries = append(tries, dst.SimTry(t, seed, testOrder),
			dst.SimTry(t, seed, func(t testing.TB, dev device.Device, seed uint64) { testStreams(t, dev, Options{}, seed, 14) }))
	}
	const fails = "only where something fails, before memory is freed"
	dst.Omit(t, ".", map[string]string{
		"e.Stream.Sync(context.Background()) in (*gpuEngine).compact":  fails,
		"e.Stream.Sync(context.Background()) in (*gpuEngine).reclaim":  fails,
		"c.s.Sync(context.Background()) in (*gpuChange).freeUnwritten": fails,
		"s.Sync(context.Background()) in (*gpuEngine).copyRows":        fails,
		"s.Sync(context.Background()) in (*CSR).orientByKernels":       fails,
		"s.Sync(context.Background()) in exportOn":                     fails,
		"s.Sync(context.Background()) in (*DeviceCSR).freeAfterError":  fails,
		"d.offsets.CopyTo(ctx, s, g.offsets) in (*DeviceCSR).Download": "the copy behind it waits for both",
	}, tries...)
}

// kernelTests returns the tests that detect broken kernels.
func kernelTests[W uint32 | uint64]() []mutate.KernelTest {
	return []mutate.KernelTest{
		{Name: "a full graph", Run: full},
		{Name: "many vertices", Run: func(t testing.TB, dev device.Device) { sweeps(t, dev, Options{}, weighted[W]) }},
		{Name: "a hub", Run: func(t testing.TB, dev device.Device) { hub[W](t, dev, 300, false) }},
		{Name: "a hub, sorted", Run: func(t testing.TB, dev device.Device) { hub[W](t, dev, 300, true) }},
		{Name: "rings, sorted", Run: func(t testing.TB, dev device.Device) { rings[W](t, dev, 600, true) }},
		{Name: "histories, undirected", Run: func(t testing.TB, dev device.Device) {
			play[W](t, dev, Options{SelfLoops: true}, 2, 14, 30, 80).close()
		}},
		{Name: "histories, directed", Run: func(t testing.TB, dev device.Device) {
			play[W](t, dev, Options{Directed: true}, 3, 14, 200, 300).close()
		}},
		{Name: "histories, multigraph", Run: func(t testing.TB, dev device.Device) {
			play[W](t, dev, Options{Multi: true, SelfLoops: true}, 4, 10, 12, 80).close()
		}},
	}
}

// mutants lists ways to break the kernels. Each replaces a pattern wherever it occurs in the PTX of
// the named kernels.
var mutants = []struct{ name, kernels, pattern, with string }{
	{"a bit of a vertex is set as if there were no others", "write", `atom\.relaxed\.gpu\.global\.or\.b32`, "atom.relaxed.gpu.global.exch.b32"},
	{"blocks of snapshots have no class", "commit", `st\.global\.u32 \[(%rd\d+)\+4\], (%r\d+);`, ""},
	{"blocks are a unit too small", "plan", `shr\.u32 (%r\d+), (%r\d+), 3;`, "shr.u32 $1, $2, 4;"},
	{"every neighbor stays", "write", `setp\.(ne|eq)\.s16 (%p\d+), (%rs\d+), 3;`, "setp.$1.s16 $2, $3, 9;"},
	{"blocks are stamped later than they are written", "commit", `ld\.param\.u32 (%r\d+), \[(%rd\d+)\+232\];`, "mov.b32 $1, 99;"},
	{"blocks of snapshots have no class, in bins", "write_few", `st\.global\.u32 \[(%rd\d+)\+4\], (%r\d+);`, ""},
	{"blocks are stamped later than they are written, in bins", "write_few", `ld\.param\.u32 (%rd\d+), \[(%rd\d+)\+284\];`, "mov.b64 $1, 99;"},
	{"deletions of a multigraph are not counted", "tally", `st\.global\.u32 \[(%rd\d+)\], (%r\d+);`, ""},
	{"blocks of a bin are numbered as if there were no bins before", "place_few", `st\.global\.u32 \[(%rd\d+)\], (%r\d+);`, "st.global.u32 [$1], 0;"},
	{"arcs of a bin are as they came", "few", `setp\.(lt|gt|ge|le)\.u64 (%p\d+), (%rd\d+), (%rd\d+);`, "setp.$1.u64 $2, $4, $3;"},
	{"all put", "settle", `setp\.(ne|eq)\.s16 (%p\d+), (%rs\d+), 1;`, "setp.$1.s16 $2, $3, 3;"},
	{"blocks are stamped later than they are written, of rows that are swept", "sweep_write", `ld\.param\.u32 (%rd\d+), \[(%rd\d+)\+284\];`, "mov.b64 $1, 99;"},
	{"vertices that are swept out stay", "sweep_write", `not\.b32`, "mov.b32"},
	{"nobody is told what a sweep plans", "sweep", `atom\.relaxed\.gpu\.global\.add\.u32 (%r\d+), \[(%rd\d+)\], (%r\d+);`, "mov.b32 $1, 0;"},
	{"vertices that go stay", "bury", `st\.global\.u32 \[(%rd\d+)\], (%r\d+);`, ""},
	{"large blocks have their weights elsewhere", "rows", `shr\.u32 (%r\d+), (%r\d+), 2;`, "shr.u32 $1, $2, 1;"},
	{"the largest vertex is one less", "arcs", `red\.relaxed\.gpu\.global\.max\.u32 \[(%rd\d+)\], (%r\d+);`, ""},
}

// TestMutants checks that the kernel tests detect each mutant.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			quick, random := mutate.DeviceTrials(90, 1, kernelTests[uint32]())
			mutate.RequireDetected(t, slices.Concat(quick, random), mutate.Replace(t, m.kernels+"_32_32", m.pattern, m.with))
		})
	}
}
