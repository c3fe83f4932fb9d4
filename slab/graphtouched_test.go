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
	graphs "github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/workload"
)

// touched compares the vertices that are listed on the device with the ends of the edges that a batch reports.
func (p *graphPlayer) touched(c *columns, u, v device.Slice[uint32], done device.Slice[bool], from, to []uint32) {
	p.Helper()
	ends, count := columnOf(c, make([]uint32, 2*len(from))), columnOf(c, []uint64{77})
	noError(p, p.g.TouchedOn(c.s, graphs.DeviceEdges{Vertices: p.vertices, From: u, To: v, Done: done}, ends, count))
	ok, got, n := make([]bool, len(from)), make([]uint32, 2*len(from)), make([]uint64, 1)
	noError(p, done.CopyTo(p.Context(), c.s, ok))
	noError(p, ends.CopyTo(p.Context(), c.s, got))
	noError(p, count.CopyTo(p.Context(), c.s, n))
	if want := (graphs.Edges{From: from, To: to}).Where(ok).Ends(); !slices.Equal(got[:n[0]], want) {
		p.Fatalf("touched are %v, want %v", got[:n[0]], want)
	}
}

// A graph lists what one of package graph does, also without outcomes, and refuses what makes no sense.
func TestGraphTouched(t *testing.T) {
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
		noError(t, g.TouchedOn(s, e, ends, count))
		if got := devicetest.Download(t, s, ends)[:devicetest.Download(t, s, count)[0]]; !slices.Equal(got, want) {
			t.Errorf("touched are %v, want %v", got, want)
		}
	}
	noError(t, g.InsertOn(s, e.From, e.To, e.Done))
	is(e, 3, 7, 8) // 1-2 was there, and 3-3 is a self loop
	noError(t, g.DeleteOn(s, e.From.Sub(0, 2), e.To.Sub(0, 2), e.Done.Sub(0, 2)))
	is(graphs.DeviceEdges{From: e.From.Sub(0, 2), To: e.To.Sub(0, 2), Done: e.Done.Sub(0, 2)}, 1, 2, 7, 8)
	is(graphs.DeviceEdges{From: e.From, To: e.To}, 1, 2, 3, 7, 8)
	is(graphs.DeviceEdges{Vertices: 8, From: e.From, To: e.To}, 1, 2, 3, 7)
	if after, err := g.Stats(t.Context()); err != nil || after.Scratch < before.Scratch || before.Scratch > 0 && after.Scratch < before.Scratch+40/8 {
		t.Errorf("%d bytes beside, %d before: %v", after.Scratch, before.Scratch, err)
	}
	if err := g.TouchedOn(s, e, ends, device.Slice[uint64]{}); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("no count: %v", err)
	}
	e.Vertices = 41
	if err := g.TouchedOn(s, e, ends, count); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("more vertices than may be: %v", err)
	}
	e.Vertices, e.Done = 0, devicetest.Upload(t, devicetest.NewStream(t, devicetest.OpenCPU(t, 1)), make([]bool, 4))
	if err := g.TouchedOn(s, e, ends, count); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("outcomes on another device: %v", err)
	}
	noError(t, g.Close())
	e.Done = device.Slice[bool]{}
	if err := g.TouchedOn(s, e, ends, count); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// BenchmarkGraphTouched is batches of random edges among 2^20 vertices on the device, of graphs of either layout: the insertion with outcomes, the list of the
// vertices that it touched, and the deletion.
func BenchmarkGraphTouched(b *testing.B) {
	dev := devicetest.Open(b)
	for _, n := range []int{1 << 16, 1 << 22} {
		rows, err := graphs.New(dev, &graphs.Options{Directed: true})
		noError(b, err)
		tables, err := NewGraph(dev, &GraphOptions{Directed: true, Vertices: 1 << 20, Seed: 1})
		noError(b, err)
		benchTouched(b, "rows", dev, n, rows.InsertOn, rows.DeleteOn, rows.TouchedOn)
		counted := func(f func(s *device.Stream, from, to device.Slice[uint32], done device.Slice[bool]) error) changesOn {
			return func(s *device.Stream, from, to device.Slice[uint32], done device.Slice[bool], _ ...device.Slice[uint64]) error {
				return f(s, from, to, done)
			}
		}
		benchTouched(b, "tables", dev, n, counted(tables.InsertOn), counted(tables.DeleteOn), tables.TouchedOn)
		noError(b, errors.Join(rows.Close(), tables.Close()))
	}
}

type changesOn = func(s *device.Stream, from, to device.Slice[uint32], done device.Slice[bool], counts ...device.Slice[uint64]) error

func benchTouched(b *testing.B, name string, dev device.Device, n int, insert, remove changesOn, list func(*device.Stream, graphs.DeviceEdges, device.Slice[uint32], device.Slice[uint64]) error) {
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
