package slab

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	graphs "github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/mutate"
)

func graphTests(weighted bool) []mutate.KernelTest {
	const budget = 1 << 22
	return []mutate.KernelTest{
		{Name: fmt.Sprintf("beside a map of edges, weighted %v", weighted), Budget: budget, Run: func(t testing.TB, dev device.Device) {
			for seed := range uint64(2) {
				// One seed makes chains, the other few.
				o := GraphOptions{Directed: seed == 0, Overwrite: seed == 1, MaxLoad: []float64{2, .5}[seed], Seed: 5}
				p := newGraphPlayer(t, dev, weighted, o, 300, 400, seed)
				for range 10 {
					p.step()
				}
				p.same()
				p.close()
			}
		}},
		{Name: fmt.Sprintf("tables that move, weighted %v", weighted), Budget: budget, Run: func(t testing.TB, dev device.Device) {
			p := newGraphPlayer(t, dev, weighted, GraphOptions{Directed: true, Vertices: 300, MaxLoad: 2, MaxTombstones: -1, Seed: 5}, 300, 400, 1)
			defer p.close()
			// chains of two slabs and more, with tombstones
			for lo := uint32(3); lo < 280; lo += 50 {
				var from, to []uint32
				for u := range uint32(3) {
					for v := lo; v < lo+50-10*u; v++ {
						from, to = append(from, u), append(to, v)
					}
				}
				p.insert(from, to, from)
				p.same()
				p.delete(from[:20], to[:20])
				p.same()
			}
		}},
		{Name: fmt.Sprintf("a large table that moves, weighted %v", weighted), Budget: budget, Run: func(t testing.TB, dev device.Device) {
			graphLargeTable(t, dev, weighted)
		}},
		{Name: fmt.Sprintf("triangles, weighted %v", weighted), Budget: budget, Run: func(t testing.TB, dev device.Device) {
			graphTriangles(t, dev, weighted, 60)
		}},
		{Name: fmt.Sprintf("on streams, weighted %v", weighted), Budget: budget, Run: func(t testing.TB, dev device.Device) {
			graphOn(t, dev, weighted, 200)
		}},
		{Name: fmt.Sprintf("on streams, whatever becomes of them, weighted %v", weighted), Budget: budget, Run: func(t testing.TB, dev device.Device) {
			for seed := range uint64(2) {
				o := GraphOptions{Directed: seed == 0, Overwrite: seed == 1, MaxVertices: 300, MaxLoad: []float64{2, .5}[seed], Seed: 5}
				graphWithoutOutcomes(t, dev, weighted, o, seed)
			}
		}},
		{Name: fmt.Sprintf("vertices that lose their edges, weighted %v", weighted), Budget: budget, Run: func(t testing.TB, dev device.Device) {
			for seed := range uint64(2) {
				p := newGraphPlayer(t, dev, weighted, GraphOptions{Directed: seed == 0, MaxLoad: 2, Seed: 5}, 100, 400, seed)
				for range 2 {
					p.insert(p.draw())
					// These slots are between dead slots.
					p.insert([]uint32{0, 0, 1}, []uint32{1, 2, 2}, []uint32{1, 2, 3})
					p.deleteVertices()
					p.same()
				}
				p.close()
			}
		}},
		{Name: fmt.Sprintf("in rows, weighted %v", weighted), Budget: budget, Run: func(t testing.TB, dev device.Device) {
			for _, directed := range []bool{false, true} {
				graphInRows(t, dev, weighted, directed, 80, 100, 1)
			}
		}},
		{Name: fmt.Sprintf("large batches, weighted %v", weighted), Budget: budget, Run: func(t testing.TB, dev device.Device) {
			for i := range 4 {
				graphLargeBatches(t, dev, weighted, i%2 == 0, i/2 == 0)
			}
		}},
		{Name: fmt.Sprintf("reads beside changes, weighted %v", weighted), Budget: budget, Run: func(t testing.TB, dev device.Device) {
			graphConcurrentReads(t, dev, weighted)
		}},
		{Name: fmt.Sprintf("a pool short of slabs, weighted %v", weighted), Budget: budget, Run: func(t testing.TB, dev device.Device) {
			for _, twice := range []bool{false, true} {
				graphShort(t, dev, weighted, twice)
			}
		}},
	}
}

// graphWithoutOutcomes runs batches on the device that request no results. Chains must get as long
// as allowed and no longer. A batch with a vertex out of range must change nothing.
func graphWithoutOutcomes(t testing.TB, dev device.Device, weighted bool, o GraphOptions, seed uint64) {
	p := newGraphPlayer(t, dev, weighted, o, 300, 400, seed)
	defer p.close()
	s, err := dev.NewStream()
	noError(t, err)
	c := &columns{TB: t, s: s}
	defer c.close()
	insert := func(from, to, weights []uint32) error {
		u, v, w := columnOf(c, from), columnOf(c, to), columnOf(c, weights)
		if weighted {
			return p.weighted.InsertOn(s, u, v, w, device.Slice[bool]{})
		}
		return p.set.InsertOn(s, u, v, device.Slice[bool]{})
	}
	for range 3 {
		from, to, weights := p.draw()
		noError(t, insert(from, to, weights))
		for i := range from {
			if from[i] != to[i] {
				p.model[p.key(from[i], to[i])] = weights[i]
			}
		}
		p.same()
		from, to, _ = p.draw()
		noError(t, p.g.DeleteOn(s, columnOf(c, from), columnOf(c, to), device.Slice[bool]{}))
		for i := range from {
			delete(p.model, p.key(from[i], to[i]))
		}
		p.same()
	}
	p.insert([]uint32{7}, []uint32{6}, []uint32{1}) // makes a table for vertex 7
	p.delete([]uint32{7}, []uint32{5})
	if err := insert([]uint32{7, 300}, []uint32{5, 300}, []uint32{1, 2}); !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "edge 1 from 300 to 300") {
		t.Errorf("a vertex that cannot be: %v", err)
	}
	p.same()
	if st, err := p.g.Stats(t.Context()); err != nil || st.Chained > st.BaseSlabs*int(p.g.policy.maxChain(slotsIn(p.g.policy.widths.Slot))) {
		t.Errorf("%d slabs behind %d base slabs: %v", st.Chained, st.BaseSlabs, err)
	}
}

// graphLargeBatches reserves memory for all edges of large batches, or lets more edges overflow
// than the list holds. With weights, batches run in parts. A batch has fewer arcs than the graph
// has vertices, or more.
func graphLargeBatches(t testing.TB, dev device.Device, weighted, directed, large bool) {
	p := newGraphPlayer(t, dev, weighted, GraphOptions{Vertices: 300, MaxVertices: 300, Directed: directed, Seed: 1}, 300, 350, 1)
	defer p.close()
	a := &p.g.policy.engine.(*gpuGraph).arcs
	if a.maxListed, a.maxEdges = 7, 400; large {
		a.maxEdges = 40
	}
	s, err := dev.NewStream()
	noError(t, err)
	c := &columns{TB: t, s: s}
	defer c.close()
	for range 3 {
		from, to, weights := p.draw()
		if u, v := columnOf(c, from), columnOf(c, to); weighted {
			noError(t, p.weighted.InsertOn(s, u, v, columnOf(c, weights), device.Slice[bool]{}))
		} else {
			noError(t, p.set.InsertOn(s, u, v, device.Slice[bool]{}))
		}
		for i := range from {
			if from[i] != to[i] {
				p.model[p.key(from[i], to[i])] = weights[i]
			}
		}
		p.same()
	}
}

// graphConcurrentReads reads on one stream while another stream changes the graph. It must find the
// edges that stay, and no edge that is never inserted. Degrees must count the edges that stay, and
// may count other edges.
func graphConcurrentReads(t testing.TB, dev device.Device, weighted bool) {
	p := newGraphPlayer(t, dev, weighted, GraphOptions{MaxLoad: 2, Vertices: 60, Seed: 5}, 60, 0, 1)
	defer p.close()
	var from, to [3][]uint32 // edges that stay, edges to delete, and edges to insert
	var absent []uint32
	for u := range uint32(40) {
		for v := range u {
			switch k := (u*7 + v) % 6; k {
			case 0, 1, 2:
				from[k], to[k] = append(from[k], u), append(to[k], v)
			default:
				if v == 1 {
					absent = append(absent, u)
				}
			}
		}
	}
	for _, k := range []int{0, 1} {
		p.insert(from[k], to[k], from[k])
	}
	var on [2]*columns
	for i := range on {
		s, err := dev.NewStream()
		noError(t, err)
		on[i] = &columns{TB: t, s: s}
		defer on[i].close()
	}
	stay, stayTo := columnOf(on[1], from[0]), columnOf(on[1], to[0])
	never, ones := columnOf(on[1], absent), columnOf(on[1], slices.Repeat([]uint32{1}, len(absent)))
	all := columnOf(on[1], sequence(0, p.vertices))
	least, most := make([]uint32, p.vertices), make([]uint32, p.vertices)
	for k := range 3 {
		for i, u := range from[k] {
			for _, end := range []uint32{u, to[k][i]} {
				if most[end]++; k == 0 {
					least[end]++
				}
			}
		}
	}
	type read struct {
		found, wrong device.Slice[bool]
		degrees      device.Slice[uint32]
	}
	var reads []read
	look := func() {
		r := read{columnOf(on[1], make([]bool, stay.Len())), columnOf(on[1], make([]bool, never.Len())), columnOf(on[1], make([]uint32, p.vertices))}
		noError(t, p.g.HasOn(on[1].s, stay, stayTo, r.found))
		noError(t, p.g.HasOn(on[1].s, never, ones, r.wrong))
		noError(t, p.g.DegreeOn(on[1].s, all, r.degrees))
		reads = append(reads, r)
	}
	u, v := columnOf(on[0], from[1]), columnOf(on[0], to[1])
	look()
	noError(t, p.g.DeleteOn(on[0].s, u, v, device.Slice[bool]{}))
	look()
	x, y := columnOf(on[0], from[2]), columnOf(on[0], to[2])
	if weighted {
		noError(t, p.weighted.InsertOn(on[0].s, x, y, x, device.Slice[bool]{}))
	} else {
		noError(t, p.set.InsertOn(on[0].s, x, y, device.Slice[bool]{}))
	}
	look()
	p.changes(true, from[1], to[1], nil)
	p.changes(false, from[2], to[2], from[2])
	for i, r := range reads {
		found, wrong, degrees := make([]bool, stay.Len()), make([]bool, never.Len()), make([]uint32, p.vertices)
		noError(t, r.found.CopyTo(t.Context(), on[1].s, found))
		noError(t, r.wrong.CopyTo(t.Context(), on[1].s, wrong))
		noError(t, r.degrees.CopyTo(t.Context(), on[1].s, degrees))
		if slices.Contains(found, false) || slices.Contains(wrong, true) {
			t.Fatalf("read %d: edges that stay are there: %v; those that never come: %v", i, found, wrong)
		}
		for u, d := range degrees {
			if d < least[u] || d > most[u] {
				t.Fatalf("read %d: vertex %d has %d neighbors, want %d to %d", i, u, d, least[u], most[u])
			}
		}
	}
	noError(t, p.g.Sync(t.Context()))
	p.same()
}

// graphLargeTable moves a table that a block moves, and a table that a warp moves. Both have
// tombstones and a chain, before and after the move.
func graphLargeTable(t testing.TB, dev device.Device, weighted bool) {
	// 2.4 edges per slab, and 4.8 at a rehash.
	load := map[bool]float64{false: .08, true: .16}[weighted]
	p := newGraphPlayer(t, dev, weighted, GraphOptions{Directed: true, Vertices: 500, MaxLoad: load, MaxTombstones: -1, Seed: 5}, 500, 0, 1)
	defer p.close()
	star := func(u uint32, to []uint32) { p.insert(slices.Repeat([]uint32{u}, len(to)), to, to) }
	var from, to []uint32 // edges of other tables, with enough base slabs for a reserve
	for u := range uint32(480) {
		from, to = append(from, 2+u, 2+u, 2+u), append(to, u, u+1, u+490)
	}
	p.insert(from, to, to)
	slots := slotsIn(p.g.policy.widths.Slot)
	// neighbors in the first bucket of all later tables, and neighbors in other buckets
	var alike, others []uint32
	for v := uint32(2); len(alike) < 2*slots+10; v++ {
		if h := hash.Uint32(v, 5); hash.Reduce32(h, 200) == 0 {
			alike = append(alike, v)
		} else if hash.Reduce32(h, 9) != 0 {
			others = append(others, v)
		}
	}
	star(0, others[:159])
	star(0, alike[:slots+5])
	star(0, others[159:300-slots-5])
	star(1, alike[:slots+5])
	star(1, others[:20])
	p.delete([]uint32{0, 0, 0, 1, 0}, []uint32{others[5], others[90], others[200], others[7], alike[1]})
	d, gen := p.g.policy.engine.dict(), p.g.generation()
	first := d.nextSlab
	more := append(others[400:410:410], alike[slots+5:]...)
	p.insert(append(make([]uint32, len(more)), slices.Repeat([]uint32{1}, slots+5)...), append(more, alike[slots+5:]...), sequence(0, len(more)+slots+5))
	if p.g.generation() != gen || d.nextSlab-first < 2*64 || d.nextSlab == d.ownedSlabs {
		t.Fatalf("%d base slabs are handed out; all has moved: %v", d.nextSlab-first, p.g.generation() != gen)
	}
	p.same()
}

// graphShort inserts edges of a vertex with full slabs while the pool has one free unit. Edges that
// find no unit may find a slot when duplicates are resolved, since another edge has linked the
// unit. On a GPU many edges do, if all warps exhaust the pool at once. Each edge must be reported
// as new exactly once.
func graphShort(t testing.TB, dev device.Device, weighted, twice bool) {
	p := newGraphPlayer(t, dev, weighted, GraphOptions{Directed: true, MaxLoad: 8, Seed: 1}, 340, 0, 1)
	defer p.close()
	star := func(lo, hi int) {
		to := sequence(lo, hi)
		if twice {
			to = append(to, to...)
		}
		p.insert(make([]uint32, len(to)), to, sequence(0, len(to)))
	}
	slots := slotsIn(p.g.policy.widths.Slot)
	full := 10 + 8*slots
	star(10, full)
	show, err := hide(dev, p.g.policy.engine.units(), 1)
	noError(t, err)
	p.g.policy.free = p.g.policy.maxUnitsFor(20) // the pool grows only after insertions have failed
	star(full, full+10)
	noError(t, show())
	p.same()
}

// TestGraphKernelsSimulated checks that the kernels of graphs match a map of edges.
func TestGraphKernelsSimulated(t *testing.T) {
	mutate.RunOnSim(t, slices.Concat(graphTests(false), graphTests(true)), 1, 90)
}

// graphMutants lists broken kernels of graphs. mapMutants has the mutants of change and find, which
// differ only in locate.
var graphMutants = []mutant{
	{"deletions add to degrees", "graph_change_64_0", `neg\.s32 (%r\d+), (%r\d+);`, "mov.b32 $1, $2;"},
	{"a vertex counts the arcs of others", "graph_change_64_0", `match\.any\.sync\.b32 (%r\d+), (%r\d+), (%r\d+);`, "mov.b32 $1, $3;"},
	{"an edge leads one way", "graph_arcs_64_0", `(?s)(.*)st\.global\.u64 [^;]*;`, "$1;"},
	{"an edge has the outcome of another arc", "graph_pick_64_0", `ld\.global\.u8 (%rs\d+), \[(%rd\d+)\];`, "ld.global.u8 $1, [$2+1];"},
	{"an edge without room is lost", "graph_insert_64_0", `(?s)(.*)st\.global\.u64 [^;]*;`, "$1"},
	{"a batch with a bad vertex is begun", "graph_insert_64_0", `(?s)^(.*?)ld\.relaxed\.gpu\.global\.b64 (%rd\d+), \[[^;]*;`, "${1}mov.b64 $2, 0;"},
	{"a batch with a bad vertex becomes arcs", "graph_arcs_64_32", `ld\.relaxed\.gpu\.global\.b64 (%rd\d+), \[[^;]*;`, "mov.b64 $1, 0;"},
	{"what an edge was at first is forgotten", "graph_pick_64_0", `or\.b16 (%rs\d+), (%rs\d+), (%rs\d+);`, "mov.b16 $1, $2;"},
	{"a bad vertex is not seen", "graph_check_64_0", `red\.relaxed\.gpu\.global\.max\.u64 [^;]*;`, ""},
	{"those without room are counted on", "graph_check_64_0", `st\.relaxed\.gpu\.global\.b32 [^;]*;`, ""},
	{"what is coming is not forgotten", "graph_forget_64_0", `st\.relaxed\.gpu\.global\.b32 [^;]*;`, ""},
	{"insertions are counted without atomics", "graph_count_64_0", add32, ""},
	{"vertices that get many are not seen by who looks at all", "graph_sweep_64_0", `st\.global\.u32 [^;]*;`, ""},
	{"vertices get the same base slabs", "graph_plan_64_0", add64, "mov.b64 $1, 0;"},
	{"arcs that move are lost", "graph_move_64_0", cas32, "mov.b32 $1, $3;"},
	{"a table that has moved stays where it was, too", "graph_settle_64_0", fill128, ""},
	{"the slabs of a table that has moved are not given back", "graph_settle_64_0", and32, ""},
	{"the slabs of a large table that has moved are not given back", "graph_settle_64_0", `(?s)(.*)` + and32, "$1"},
	{"tombstones of a table that has moved count", "graph_settle_64_0", add64, ""},
	{"all tables move to the same base slabs", "graph_hand_64_0", add64, "mov.b64 $1, 0;"},
	{"a vertex is forgotten for another one", "graph_doom_64_0", or32, "st.relaxed.gpu.global.b32 [$2], $3;"},
	{"edges of vertices go one way", "graph_sever_64_0", `shl\.b64 (%rd\d+), (%rd\d+), 32;`, "mov.b64 $1, 0;"},
	{"edges of vertices count without atomics", "graph_sever_64_0", add64, ""},
	{"an edge that comes in late is not reported", "graph_winners_last_64_32", `st\.relaxed\.gpu\.global\.u8 [^;]*;`, ""},
	{"triangles are added up at the scope of a block", "graph_close_64_0", `atom\.relaxed\.gpu(\.global\.add\.u64)`, "atom.relaxed.cta$1"},
	{"rows overlap", "graph_rows_64_0", `popc\.b32 (%r\d+), (%r\d+);`, "mov.b32 $1, 0;"},
}

// TestGraphMutantsAreFound checks that the kernel tests detect each mutant.
func TestGraphMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range graphMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			quick, random := mutate.DeviceTrials(90, 1, graphTests(strings.HasSuffix(m.kernels, "_32")))
			mutate.RequireDetected(t, slices.Concat(quick, random), m.rewrite(t))
		})
	}
}

// graphStreams runs batches from host memory and batches on three streams without waiting. Each
// must have the result that the order of calls implies.
func graphStreams(t testing.TB, dev device.Device, seed uint64) {
	p := newGraphPlayer(t, dev, false, GraphOptions{Seed: 5, MaxVertices: 60}, 60, 60, seed)
	defer p.close()
	var c [3]*columns
	for i := range c {
		s, err := dev.NewStream()
		noError(t, err)
		c[i] = &columns{TB: t, s: s}
		defer c[i].close()
	}
	type asked struct {
		c    *columns
		ok   device.Slice[bool]
		want []bool
	}
	var all []asked
	for i := range 9 {
		if i%4 == 3 {
			p.step()
			continue
		}
		p.size = 20 + 20*i // batches get larger
		a, told := asked{c: c[p.r.IntN(3)]}, p.r.IntN(2) == 0
		from, to, _ := p.draw()
		insert := p.r.IntN(3) > 0
		for j := range from {
			k := p.key(from[j], to[j])
			_, there := p.model[k]
			a.want = append(a.want, from[j] != to[j] && there != insert)
			if delete(p.model, k); insert && from[j] != to[j] {
				p.model[k] = 0
			}
		}
		u, v := columnOf(a.c, from), columnOf(a.c, to)
		if told {
			a.ok = columnOf(a.c, make([]bool, len(from)))
			all = append(all, a)
		}
		if insert {
			noError(t, p.set.InsertOn(a.c.s, u, v, a.ok))
		} else {
			noError(t, p.g.DeleteOn(a.c.s, u, v, a.ok))
		}
	}
	for i, a := range all {
		got := make([]bool, len(a.want))
		noError(t, a.ok.CopyTo(t.Context(), a.c.s, got))
		if !slices.Equal(got, a.want) {
			t.Fatalf("batch %d: %v, want %v", i, got, a.want)
		}
	}
	bad := columnOf(c[0], []uint32{1, 60, 2})
	for _, told := range []device.Slice[bool]{{}, columnOf(c[0], make([]bool, 3))} {
		if err := p.set.InsertOn(c[0].s, bad, columnOf(c[0], []uint32{2, 3, 4}), told); !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "edge 1 from 60 to 3") {
			t.Fatalf("a vertex that cannot be: %v", err)
		}
	}
	p.same()
}

// graphInTurns runs batches of one kind in quick succession on two streams, which use the same
// memory. The third batch needs more memory.
func graphInTurns(t testing.TB, dev device.Device, seed uint64) {
	for _, mixed := range []bool{false, true} {
		p := newGraphPlayer(t, dev, false, GraphOptions{Seed: 5, Directed: true, MaxVertices: 60}, 60, 60, seed)
		var c [2]*columns
		for i := range c {
			s, err := dev.NewStream()
			noError(t, err)
			c[i] = &columns{TB: t, s: s}
		}
		var done [4]device.Slice[bool]
		var want [4][]bool
		for i, n := range []int{200, 190, 600, 180} {
			on, from, to, kinds := c[i%2], make([]uint32, n), make([]uint32, n), bytes.Repeat([]byte{byte(weft.OpPut)}, n)
			for j := range from {
				from[j], to[j] = uint32(p.r.IntN(60)), uint32(p.r.IntN(60))
				e := edge{from[j], to[j]}
				_, there := p.model[e]
				if mixed && p.r.IntN(3) == 0 {
					kinds[j] = byte(weft.OpDelete)
				}
				inserts := kinds[j] == byte(weft.OpPut)
				want[i] = append(want[i], from[j] != to[j] && there != inserts)
				if delete(p.model, e); inserts && from[j] != to[j] {
					p.model[e] = 0
				}
			}
			done[i] = columnOf(on, make([]bool, n))
			if u, v := columnOf(on, from), columnOf(on, to); mixed {
				noError(t, p.set.ApplyOn(on.s, columnOf(on, kinds), u, v, done[i]))
			} else {
				noError(t, p.set.InsertOn(on.s, u, v, done[i]))
			}
		}
		for i, d := range done {
			got := make([]bool, d.Len())
			noError(t, d.CopyTo(t.Context(), c[i%2].s, got))
			if !slices.Equal(got, want[i]) {
				t.Fatalf("mixed %v, batch %d: %v, want %v", mixed, i, got, want[i])
			}
		}
		puts := columnOf(c[1], []uint8{uint8(weft.OpPut), uint8(weft.OpPut)})
		if err := p.set.ApplyOn(c[1].s, puts, columnOf(c[1], []uint32{1, 60}), columnOf(c[1], []uint32{2, 3}), device.Slice[bool]{}); !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "edge 1 from 60 to 3") {
			t.Fatalf("a vertex that cannot be, in a mixed batch: %v", err)
		}
		p.same()
		p.close()
		c[0].close()
		c[1].close()
	}
}

// graphRowsAfterStreams reads rows, and deletes vertices, right after batches on other streams.
func graphRowsAfterStreams(t testing.TB, dev device.Device, seed uint64) {
	p := newGraphPlayer(t, dev, seed == 2, GraphOptions{Seed: 5, Directed: seed%2 == 0}, 60, 60, seed)
	s, err := dev.NewStream()
	noError(t, err)
	other, err := dev.NewStream()
	noError(t, err)
	c, on := &columns{TB: t, s: s}, &columns{TB: t, s: other}
	look := func() {
		if p.weighted != nil {
			rows, err := p.weighted.CSR(t.Context())
			noError(t, err)
			p.sameRows(rows)
			return
		}
		d, err := p.set.CSROn(t.Context(), other)
		noError(t, err)
		rows, err := d.Download(t.Context(), s)
		noError(t, err)
		noError(t, d.Free())
		p.sameRows(graphs.NewWeighted(rows, make([]uint32, rows.Arcs())))
	}
	look()
	from, to, weights := p.draw()
	for i, u := range from {
		if u != to[i] {
			p.model[p.key(u, to[i])] = weights[i]
		}
	}
	if u, v := columnOf(c, from), columnOf(c, to); p.weighted != nil {
		noError(t, p.weighted.InsertOn(s, u, v, columnOf(c, weights), device.Slice[bool]{}))
	} else {
		noError(t, p.set.InsertOn(s, u, v, device.Slice[bool]{}))
	}
	look()
	doomed, count := columnOf(on, []uint32{1, 1, 59, 1000}), columnOf(on, []uint64{9})
	before := len(p.model)
	maps.DeleteFunc(p.model, func(e edge, _ uint32) bool { return e.from == 1 || e.to == 1 || e.from == 59 || e.to == 59 })
	noError(t, p.g.DeleteVerticesOn(other, doomed, count))
	var n [1]uint64
	noError(t, count.CopyTo(t.Context(), other, n[:]))
	if int(n[0]) != 9+before-len(p.model) {
		t.Fatalf("%d edges of vertices deleted and 9, want %d", n[0], before-len(p.model))
	}
	look()
	c.close()
	on.close()
	p.close()
}

// graphHostAfterStream runs a batch from host memory right after a batch on a stream. Both use the
// same memory for arcs. Then it closes a graph right after a batch.
func graphHostAfterStream(t testing.TB, dev device.Device, seed uint64) {
	p := newGraphPlayer(t, dev, false, GraphOptions{Seed: 5, Vertices: 400, Directed: true}, 400, 300, seed)
	s, err := dev.NewStream()
	noError(t, err)
	c := &columns{TB: t, s: s}
	for _, n := range []uint32{50, 300} {
		from, to := make([]uint32, n), sequence(int(n), int(2*n))
		for i := range from {
			p.model[edge{0, to[i]}] = 0
		}
		noError(t, p.set.InsertOn(s, columnOf(c, from), columnOf(c, to), columnOf(c, make([]bool, n))))
		p.insert([]uint32{1, 2, 1}, []uint32{n, n, n}, []uint32{0, 0, 0})
		if p.g.Edges() != len(p.model) {
			t.Fatalf("%d edges, want %d", p.g.Edges(), len(p.model))
		}
		p.same()
	}
	p.deleteVertices()
	p.same()
	for _, n := range []int{300, 600} { // the second batch enlarges the memory of the first
		more := columnOf(c, sequence(0, n))
		noError(t, p.g.DeleteOn(s, more, more, columnOf(c, make([]bool, n))))
	}
	for _, n := range []int{600, 1200} { // vertices without tables
		noError(t, p.set.InsertOn(s, columnOf(c, sequence(n, 2*n)), columnOf(c, sequence(0, n)), device.Slice[bool]{}))
	}
	p.close()
	c.close()
}

// graphTries returns test programs for graphs on a simulated GPU.
func graphTries(t testing.TB) (tries []dst.Try) {
	for seed := range uint64(3) {
		for _, program := range []func(t testing.TB, dev device.Device, seed uint64){graphStreams, graphHostAfterStream, graphTrianglesAfterStreams, graphInTurns, graphRowsAfterStreams} {
			tries = append(tries, dst.SimTry(t, seed, program))
		}
	}
	return tries
}

// graphTrianglesAfterStreams counts triangles right after batches.
func graphTrianglesAfterStreams(t testing.TB, dev device.Device, _ uint64) {
	graphTriangles(t, dev, false, 20)
}

// TestGraphOmissionsAreNoticed checks that batches of several streams have the right results, and
// that a test fails without any one of the calls by which the host orders batches or waits for
// them.
func TestGraphOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	const fails = "only where something fails, before memory is freed"
	needless := map[string]string{
		"a.ok.Sub(0, b.N).CopyTo(ctx, s, ok) in (*arcBatch).runHost":                                              "the count, copied after it on the same stream, is waited for",
		"g.core.Sync(ctx) in (*graph).Sync":                                                                       "programs of tables judge the calls of the core",
		"t.Sync(ctx) in (*arcBatch).runHost":                                                                      "the count was waited for before, and only counters are read after",
		"e.Stream.Sync(context.Background()) in (*gpuGraph).triangles":                                            fails,
		"e.Stream.Sync(context.Background()) in (*gpuGraph).countClosed":                                          fails,
		"s.Sync(context.Background()) in (*gpuGraph).allRows":                                                     fails,
		"s.Sync(context.WithoutCancel(ctx)) in (*gpuGraph).exportRows":                                            fails,
		"s.Sync(context.Background()) in exportGraph":                                                             fails,
		"s.CopyOut(context.Background(), device.Bytes(u[:]), m.from+device.Ptr(4*i)) in (*columnWork).rangeError": "the other end, copied after it on the same stream, is waited for",
	}
	dst.Omit(t, ".", needless, graphTries(t)...)
}
