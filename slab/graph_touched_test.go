package slab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	graphs "github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/workload"
)

// sameEndpoints compares the vertices listed on the device with the ends of the edges that a batch
// reports as changed.
func (p *graphPlayer) sameEndpoints(c *columns, u, v device.Slice[uint32], done device.Slice[bool], from, to []uint32) {
	p.Helper()
	ends, count := columnOf(c, make([]uint32, 2*len(from))), columnOf(c, []uint64{77})
	noError(p, p.g.EndpointsOn(c.s, graphs.DeviceEdges{Vertices: p.vertices, From: u, To: v, Done: done}, ends, count))
	ok, got, n := make([]bool, len(from)), make([]uint32, 2*len(from)), make([]uint64, 1)
	noError(p, done.CopyTo(p.Context(), c.s, ok))
	noError(p, ends.CopyTo(p.Context(), c.s, got))
	noError(p, count.CopyTo(p.Context(), c.s, n))
	if want := (graphs.Edges{From: from, To: to}).Filter(ok).Endpoints(); !slices.Equal(got[:n[0]], want) {
		p.Fatalf("touched are %v, want %v", got[:n[0]], want)
	}
}

// graphCounts runs insertions and deletions on two streams. They report which edges changed, the
// number of changed edges, or neither. Nothing waits until all are submitted. A GPU runs batches in
// small parts.
func graphCounts(t testing.TB, dev device.Device, weighted, directed bool, seed uint64) {
	p := newGraphPlayer(t, dev, weighted, GraphOptions{Directed: directed, Seed: 1, Overwrite: seed%2 == 1, MaxVertices: 100}, 100, 150, seed)
	defer p.close()
	if e, ok := p.g.policy.engine.(*gpuGraph); ok {
		e.arcs.maxEdges, e.arcs.maxListed = 64, 64
	}
	var on [2]*columns
	for i := range on {
		s, err := dev.NewStream()
		noError(t, err)
		on[i] = &columns{TB: t, s: s}
		defer on[i].close()
	}
	var counts []device.Slice[uint64]
	var streams []*device.Stream
	var want []uint64
	for i := range 8 {
		c, none := on[p.r.IntN(2)], device.Slice[bool]{}
		done, count := none, columnOf(c, []uint64{77, 78})
		from, to, weights := p.draw()
		u, v, w := columnOf(c, from), columnOf(c, to), columnOf(c, weights)
		if p.r.IntN(2) == 0 {
			done = columnOf(c, make([]bool, len(from)))
		}
		counts, streams, want = append(counts, count), append(streams, c.s), append(want, p.changes(i%3 == 2, from, to, weights))
		if p.r.IntN(4) == 0 {
			count, want[i] = device.Slice[uint64]{}, 0
		}
		var err error
		switch {
		case i%3 == 2:
			err = p.g.DeleteOn(c.s, u, v, done, count)
		case weighted:
			err = p.weighted.InsertOn(c.s, u, v, w, done, count)
		default:
			err = p.set.InsertOn(c.s, u, v, done, count)
		}
		noError(t, err)
	}
	for i, count := range counts {
		var got [2]uint64
		noError(t, count.CopyTo(t.Context(), streams[i], got[:]))
		if got != [2]uint64{77 + want[i], 78} {
			t.Fatalf("batch %d is said to have changed %d edges, want %d more than 77, and 78 after it", i, got, want[i])
		}
	}
	p.same()
}

// changes runs a batch on the model, and returns the number of edges that it inserts or deletes.
func (p *graphPlayer) changes(deletes bool, from, to, weights []uint32) uint64 {
	before := len(p.model)
	for i, u := range from {
		if deletes {
			delete(p.model, p.key(u, to[i]))
		} else if u != to[i] {
			p.model[p.key(u, to[i])] = weights[i]
		}
	}
	return uint64(max(before-len(p.model), len(p.model)-before))
}

// TestGraphCounted compares the counts of batches on the device with a map of edges.
func TestGraphCounted(t *testing.T) {
	for i, weighted := range []bool{false, true, false, true} {
		t.Run(fmt.Sprintf("weighted %v, directed %v", weighted, i < 2), func(t *testing.T) {
			for seed := range uint64(3) {
				graphCounts(t, devicetest.Open(t), weighted, i < 2, seed)
				if !testing.Short() {
					graphCounts(t, devicetest.OpenSim(t, &sim.Options{Seed: seed, Scheduler: sim.Random, Races: true}), weighted, i < 2, seed)
				}
			}
		})
	}
}

// TestGraphCountsOf checks that the count of an empty batch is 0, and that a counter on another
// device is refused before anything changes.
func TestGraphCountsOf(t *testing.T) {
	dev := devicetest.Open(t)
	s, none := devicetest.NewStream(t, dev), device.Slice[bool]{}
	g, err := NewGraph(dev, nil)
	noError(t, err)
	column, here := devicetest.Upload(t, s, []uint32{1, 2}), devicetest.Upload(t, s, []uint64{77})
	elsewhere := devicetest.Upload(t, devicetest.NewStream(t, devicetest.OpenCPU(t, 1)), []uint64{77})
	for _, counts := range [][]device.Slice[uint64]{{elsewhere}, {here, here}} {
		for _, err := range []error{g.InsertOn(s, column, column, none, counts...), g.DeleteOn(s, column, column, none, counts...)} {
			if !errors.Is(err, device.ErrInvalid) {
				t.Errorf("%d counts: %v", len(counts), err)
			}
		}
	}
	noError(t, g.InsertOn(s, column.Sub(0, 0), column.Sub(0, 0), none, here))
	if n := devicetest.Download(t, s, here)[0]; n != 77 {
		t.Errorf("no edges are %d and 77", n)
	}
	noError(t, g.Close())
}

// TestGraphEndpointsOn checks that a graph lists the same vertices as a graph of package graph,
// with and without results, and refuses invalid lists.
func TestGraphEndpointsOn(t *testing.T) {
	dev := devicetest.Open(t)
	s := devicetest.NewStream(t, dev)
	g, err := NewGraph(dev, &GraphOptions{MaxVertices: 40})
	noError(t, err)
	before, err := g.Stats(t.Context())
	noError(t, err)
	_, err = g.Insert(t.Context(), []uint32{1}, []uint32{2}, nil)
	noError(t, err)
	e := graphs.DeviceEdges{
		From: devicetest.Upload(t, s, []uint32{2, 8, 3, 3}), To: devicetest.Upload(t, s, []uint32{1, 7, 3, 8}), Done: devicetest.Upload(t, s, make([]bool, 4)),
	}
	ends, count := devicetest.Upload(t, s, make([]uint32, 8)), devicetest.Upload(t, s, []uint64{77})
	is := func(e graphs.DeviceEdges, want ...uint32) {
		t.Helper()
		noError(t, g.EndpointsOn(s, e, ends, count))
		if got := devicetest.Download(t, s, ends)[:devicetest.Download(t, s, count)[0]]; !slices.Equal(got, want) {
			t.Errorf("touched are %v, want %v", got, want)
		}
	}
	noError(t, g.InsertOn(s, e.From, e.To, e.Done))
	is(e, 3, 7, 8) // edge 1-2 was present, and 3-3 is a self loop
	noError(t, g.DeleteOn(s, e.From.Sub(0, 2), e.To.Sub(0, 2), e.Done.Sub(0, 2)))
	is(graphs.DeviceEdges{From: e.From.Sub(0, 2), To: e.To.Sub(0, 2), Done: e.Done.Sub(0, 2)}, 1, 2, 7, 8)
	is(graphs.DeviceEdges{From: e.From, To: e.To}, 1, 2, 3, 7, 8)
	is(graphs.DeviceEdges{Vertices: 8, From: e.From, To: e.To}, 1, 2, 3, 7)
	if after, err := g.Stats(t.Context()); err != nil || after.Scratch < before.Scratch || before.Scratch > 0 && after.Scratch < before.Scratch+40/8 {
		t.Errorf("%d bytes beside, %d before: %v", after.Scratch, before.Scratch, err)
	}
	if err := g.EndpointsOn(s, e, ends, device.Slice[uint64]{}); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("no count: %v", err)
	}
	e.Vertices = 41
	if err := g.EndpointsOn(s, e, ends, count); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("more vertices than may be: %v", err)
	}
	e.Vertices, e.Done = 0, devicetest.Upload(t, devicetest.NewStream(t, devicetest.OpenCPU(t, 1)), make([]bool, 4))
	if err := g.EndpointsOn(s, e, ends, count); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("outcomes on another device: %v", err)
	}
	noError(t, g.Close())
	e.Done = device.Slice[bool]{}
	if err := g.EndpointsOn(s, e, ends, count); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// BenchmarkGraphEndpointsOn runs batches of random edges among 2^20 vertices on the device, on
// graphs of both packages. It measures the insertion with results, the list of ends, and the
// deletion.
func BenchmarkGraphEndpointsOn(b *testing.B) {
	dev := devicetest.Open(b)
	for _, n := range []int{1 << 16, 1 << 22} {
		rows, err := graphs.New(dev, &graphs.Options{Directed: true})
		noError(b, err)
		tables, err := NewGraph(dev, &GraphOptions{Directed: true, Vertices: 1 << 20, Seed: 1})
		noError(b, err)
		benchEndpoints(b, "rows", dev, n, rows.InsertOn, rows.DeleteOn, rows.EndpointsOn)
		benchEndpoints(b, "tables", dev, n, tables.InsertOn, tables.DeleteOn, tables.EndpointsOn)
		noError(b, errors.Join(rows.Close(), tables.Close()))
	}
}

type changesOn = func(s *device.Stream, from, to device.Slice[uint32], done device.Slice[bool], counts ...device.Slice[uint64]) error

func benchEndpoints(b *testing.B, name string, dev device.Device, n int, insert, remove changesOn, list func(*device.Stream, graphs.DeviceEdges, device.Slice[uint32], device.Slice[uint64]) error) {
	s := devicetest.NewStream(b, dev)
	from, to := make([]uint32, n), make([]uint32, n)
	for i := range from {
		from[i] = uint32(workload.Below(workload.Random(7, uint64(2*i)), 1<<20))
		to[i] = uint32(workload.Below(workload.Random(7, uint64(2*i+1)), 1<<20))
	}
	e := graphs.DeviceEdges{From: devicetest.Upload(b, s, from), To: devicetest.Upload(b, s, to), Done: devicetest.Upload(b, s, make([]bool, n))}
	ends, count := devicetest.Upload(b, s, make([]uint32, 2*n)), devicetest.Upload(b, s, []uint64{0})
	steps := []struct {
		what string
		run  func() error
	}{
		{"untold", func() error { return insert(s, e.From, e.To, device.Slice[bool]{}) }},
		{"", func() error { return remove(s, e.From, e.To, device.Slice[bool]{}) }},
		{"counted", func() error { return insert(s, e.From, e.To, device.Slice[bool]{}, count) }},
		{"", func() error { return remove(s, e.From, e.To, device.Slice[bool]{}) }},
		{"insert", func() error { return insert(s, e.From, e.To, e.Done) }},
		{"touched", func() error { return list(s, e, ends, count) }},
		{"touched 2^20", func() error {
			e := e
			e.Vertices = 1 << 20
			return list(s, e, ends, count)
		}},
		{"delete", func() error { return remove(s, e.From, e.To, e.Done) }},
	}
	took := make([][]time.Duration, len(steps))
	b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
		for range b.N {
			for i, step := range steps {
				begin := time.Now()
				noError(b, errors.Join(step.run(), s.Sync(b.Context())))
				took[i] = append(took[i], time.Since(begin))
			}
		}
		for i, step := range steps {
			if slices.Sort(took[i]); step.what != "" {
				b.ReportMetric(float64(took[i][len(took[i])/2].Nanoseconds())/1e3, strings.ReplaceAll(step.what, " ", "-")+"-us")
			}
		}
	})
}
