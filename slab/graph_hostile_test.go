package slab

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/core"
)

// onBoth runs a test on the device under test and on a simulated GPU.
func onBoth(t *testing.T, f func(t *testing.T, dev device.Device)) {
	t.Run("device", func(t *testing.T) { f(t, devicetest.Open(t)) })
	if !testing.Short() {
		t.Run("simulated", func(t *testing.T) { f(t, devicetest.OpenSim(t, &sim.Options{Arch: 90})) })
	}
}

// TestGraphIterationBesideMoves inserts and deletes other edges and moves tables during an
// iteration. The iteration must yield each edge that was present all the time exactly once.
func TestGraphIterationBesideMoves(t *testing.T) {
	defer func(n int) { core.PageBytes = n }(core.PageBytes)
	core.PageBytes = 1 << 12
	onBoth(t, func(t *testing.T, dev device.Device) {
		p := newGraphPlayer(t, dev, false, GraphOptions{Directed: true, Vertices: 2000, MaxLoad: 2, Seed: 1}, 2000, 0, 1)
		defer p.close()
		var from, to []uint32
		for u := range uint32(200) {
			for v := range uint32(40) {
				from, to = append(from, u), append(to, u+v+1)
			}
		}
		p.insert(from, to, from)
		seen, n, moved := map[edge]int{}, uint32(0), false
		before := p.g.policy.engine.dict()
		for u, v := range p.g.All() {
			if seen[edge{u, v}]++; len(seen)%500 == 0 && n < 30 {
				d := before.nextSlab
				row := sequence(1000, 1000+100)
				of := slices.Repeat([]uint32{n}, 100)
				p.insert(of, row, row)
				moved = moved || before.nextSlab != d
				switch n += 5; n % 15 {
				case 0:
					p.delete(of, row)
				case 5:
					noError(t, p.g.Compact(t.Context()))
				}
			}
		}
		for i, u := range from {
			if k := seen[edge{u, to[i]}]; k != 1 {
				t.Fatalf("%d-%d is brought %d times; tables have moved: %v", u, to[i], k, moved)
			}
		}
		p.same()
	})
}

// TestGraphDeletesWithoutMemory checks that a deletion succeeds even if memory cannot be freed.
func TestGraphDeletesWithoutMemory(t *testing.T) {
	onBoth(t, func(t *testing.T, dev device.Device) {
		for _, vertices := range []bool{false, true} {
			p := newGraphPlayer(t, dev, false, GraphOptions{Directed: true, Vertices: 10, Seed: 1}, 10, 0, 1)
			const n = 1 << 12
			row := sequence(1, n+1)
			_, err := p.set.Insert(t.Context(), make([]uint32, n), row, nil)
			noError(t, err)
			// These deletions have enough memory.
			_, err = p.set.Delete(t.Context(), make([]uint32, 5), row[:5], nil)
			noError(t, err)
			fired := devicetest.FailMemoryAfter(dev, 1)
			var got int
			if vertices {
				got, err = p.g.DeleteVertices(t.Context(), []uint32{0})
			} else {
				got, err = p.g.Delete(t.Context(), make([]uint32, n), row, nil)
			}
			if got != n-5 || err != nil || p.g.Edges() != 0 {
				t.Errorf("vertices %v: %d deleted, of which %d stay: %v", vertices, got, p.g.Edges(), err)
			}
			if !fired() {
				t.Error("nothing asks for memory")
			}
			devicetest.ClearFailures(dev)
			p.same()
			p.close()
		}
	})
}

// TestGraphClearFails checks that a failed Clear leaves the graph unchanged, or can be repeated.
func TestGraphClearFails(t *testing.T) {
	onBoth(t, func(t *testing.T, dev device.Device) {
		for n, fired := 0, true; fired; n++ {
			p := newGraphPlayer(t, dev, false, GraphOptions{Vertices: 100, MaxLoad: 2, Seed: 1}, 100, 0, 1)
			p.insert(make([]uint32, 90), sequence(1, 91), make([]uint32, 90)) // with chains
			has := devicetest.FailAfter(dev, n)
			err := p.g.Clear(t.Context())
			if fired = has(); (err != nil) != fired {
				t.Errorf("operation %d fails: %v, and Clear: %v", n, fired, err)
			}
			devicetest.ClearFailures(dev)
			if n == 0 && p.g.Edges() > 0 {
				p.same()
			}
			_, err = p.set.Insert(t.Context(), sequence(1, 60), sequence(2, 61), nil)
			noError(t, errors.Join(err, p.g.Clear(t.Context())))
			clear(p.model)
			p.same()
			p.insert([]uint32{1, 2}, []uint32{3, 4}, []uint32{3, 4})
			p.same()
			p.close()
		}
	})
}

// TestGraphOnASmallDevice checks that a batch fails on a device without free memory. Some of its
// edges may be inserted. Stored edges must remain, and the graph must work again once memory is
// available.
func TestGraphOnASmallDevice(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, directed := range []bool{false, true} {
		dev := devicetest.OpenSim(t, &sim.Options{Arch: 90, Memory: 600 << 10})
		p := newGraphPlayer(t, dev, false, GraphOptions{Directed: directed, Seed: 1}, 400, 600, 1)
		first, firstTo, weights := p.draw()
		p.insert(first, firstTo, weights)
		refused := 0
		for n := 0; refused < 3; n++ {
			from, to, _ := p.draw()
			for i := range from { // neighbors that no batch had
				to[i] += uint32(400 + 400*n)
			}
			in, err := p.set.Insert(t.Context(), from, to, nil)
			if err == nil {
				for i, u := range from {
					p.model[p.key(u, to[i])] = 0
				}
				continue
			}
			if refused++; !errors.Is(err, device.ErrMemory) || in != 0 {
				t.Fatalf("%d edges of a batch that finds no memory: %v", in, err)
			}
			for some := range slices.Chunk(p.edges(), 1000) {
				var u, v []uint32
				for _, e := range some {
					u, v = append(u, e.from), append(v, e.to)
				}
				if there, err := p.g.Has(t.Context(), u, v, nil); there != len(some) || err != nil {
					t.Fatalf("%d of %d edges are there: %v", there, len(some), err)
				}
			}
			_, err = p.g.Delete(t.Context(), from, to, nil)
			noError(t, err)
			if p.g.Edges() != len(p.model) {
				t.Fatalf("%d edges, want %d", p.g.Edges(), len(p.model))
			}
			noError(t, p.g.checkMemory())
		}
		noError(t, p.g.Clear(t.Context()))
		clear(p.model)
		p.insert(first, firstTo, weights)
		noError(t, p.g.checkMemory())
		p.close()
	}
}

// TestGraphOfOneEdge checks batches that repeat one edge many times.
func TestGraphOfOneEdge(t *testing.T) {
	onBoth(t, func(t *testing.T, dev device.Device) {
		for _, weighted := range []bool{false, true} {
			p := newGraphPlayer(t, dev, weighted, GraphOptions{Seed: 1}, 10, 0, 1)
			const n = 3000
			from, to := slices.Repeat([]uint32{3, 5}, n/2), slices.Repeat([]uint32{5, 3}, n/2)
			p.insert(from, to, sequence(0, n))
			p.same()
			p.delete(from, to)
			p.same()
			p.insert(from, to, sequence(7, n+7))
			noError(t, p.g.Compact(t.Context()))
			if s, err := p.g.Stats(t.Context()); err != nil || s.BaseSlabs != 2 || s.Chained != 0 {
				t.Errorf("%+v, %v", s, err)
			}
			p.same()
			p.close()
		}
	})
}

// TestGraphTicketsBeginAnew checks that tickets wrap around, and that a batch with a vertex out of
// range is still detected.
func TestGraphTicketsBeginAnew(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
	p := newGraphPlayer(t, dev, false, GraphOptions{Directed: true, MaxVertices: 300, Vertices: 300, Seed: 1}, 300, 0, 1)
	defer p.close()
	p.insert([]uint32{1}, []uint32{2}, []uint32{0}) // makes a table for vertex 1
	a := &p.g.policy.engine.(*gpuGraph).arcs
	c := &columns{TB: t, s: devicetest.NewStream(t, dev)}
	a.ticket = ^uint32(0) - 2
	for i := range uint32(6) {
		u, v := columnOf(c, []uint32{1, 1}), columnOf(c, []uint32{10 + i, 300})
		if err := p.set.InsertOn(c.s, u, v, device.Slice[bool]{}); !errors.Is(err, weft.ErrOptions) {
			t.Errorf("ticket %d, a vertex that cannot be: %v", a.ticket, err)
		}
		p.insert([]uint32{1}, []uint32{20 + i}, []uint32{0})
	}
	p.same()
	for _, free := range c.free {
		noError(t, free())
	}
}

// TestGraphRefusesOtherDevices checks that On methods refuse streams and columns of other devices,
// and that a closed graph refuses all calls.
func TestGraphRefusesOtherDevices(t *testing.T) {
	onBoth(t, func(t *testing.T, dev device.Device) {
		other := devicetest.OpenCPU(t, 1)
		g, err := NewGraph(dev, &GraphOptions{Seed: 1})
		noError(t, err)
		type place struct {
			s     *device.Stream
			ids   device.Slice[uint32]
			flags device.Slice[bool]
			bytes device.Slice[uint8]
			words device.Slice[uint64]
		}
		at := func(dev device.Device) place {
			s := devicetest.NewStream(t, dev)
			return place{s, devicetest.Upload(t, s, []uint32{1, 2}), devicetest.Upload(t, s, make([]bool, 2)), devicetest.Upload(t, s, make([]uint8, 2)), devicetest.Upload(t, s, make([]uint64, 3))}
		}
		own, its := at(dev), at(other)
		calls := map[string]func(s *device.Stream, p place, last place) error{
			"InsertOn": func(s *device.Stream, p, last place) error { return g.InsertOn(s, p.ids, p.ids, last.flags) },
			"DeleteOn": func(s *device.Stream, p, last place) error { return g.DeleteOn(s, p.ids, last.ids, p.flags) },
			"ApplyOn": func(s *device.Stream, p, last place) error {
				return g.ApplyOn(s, p.bytes, p.ids, p.ids, p.flags, last.words)
			},
			"HasOn":            func(s *device.Stream, p, last place) error { return g.HasOn(s, p.ids, p.ids, p.flags, last.words) },
			"DegreeOn":         func(s *device.Stream, p, last place) error { return g.DegreeOn(s, p.ids, last.ids) },
			"RowsOn":           func(s *device.Stream, p, last place) error { return g.RowsOn(s, p.ids, p.ids, p.words, last.ids) },
			"DeleteVerticesOn": func(s *device.Stream, p, last place) error { return g.DeleteVerticesOn(s, p.ids, last.words) },
		}
		for name, call := range calls {
			for what, err := range map[string]error{
				"no stream": call(nil, own, own), "another stream": call(its.s, own, own), "other columns": call(own.s, its, its), "one other column": call(own.s, own, its),
			} {
				if !errors.Is(err, device.ErrInvalid) {
					t.Errorf("%s, %s: %v", name, what, err)
				}
			}
		}
		if _, err := g.CSROn(t.Context(), its.s); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("CSROn, another stream: %v", err)
		}
		noError(t, g.Close())
		for name, call := range calls {
			if err := call(own.s, own, own); !errors.Is(err, weft.ErrClosed) {
				t.Errorf("%s of a graph that is closed: %v", name, err)
			}
		}
		for name, err := range map[string]error{
			"Save": g.Save(t.Context(), nil), "Clear": g.Clear(t.Context()), "Sync": g.Sync(t.Context()), "Compact": g.Compact(t.Context()),
			"View": g.View(context.Background(), own.s, func(GraphRef) error { return nil }),
		} {
			if !errors.Is(err, weft.ErrClosed) && (name != "View" || !errors.Is(err, device.ErrNoKernels)) {
				t.Errorf("%s of a graph that is closed: %v", name, err)
			}
		}
	})
}
