package triangles_test

import (
	"encoding/json"
	"flag"
	"math/bits"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/gen"
)

var (
	measureVertices = flag.Int("triangles.vertices", 0, "measure graphs of that many `vertices`, actors of a quarter; 1048576 is what results are for")
	measureJSON     = flag.String("triangles.json", "/dev/stdout", "`file` for what was measured")
	measureGraph    = flag.String("triangles.graph", "", "measure the graph of that `name` only")
)

// measurement is medians of several runs, on a graph that lies on the device.
type measurement struct {
	Graph        string
	Vertices     int
	Edges        int
	Wedges       uint64 // over edges of the view
	Triangles    uint64
	OrientMillis float64
	CountMillis  float64
	Batch        int // edges that are there already
	OfMillis     float64
}

const measureRuns = 5

func median(t *testing.T, f func() error) float64 {
	t.Helper()
	var all []float64
	for range measureRuns + 1 {
		start := time.Now()
		must(t, f())
		all = append(all, float64(time.Since(start).Microseconds())/1000)
	}
	slices.Sort(all[1:]) // the first loads the kernels
	return all[1+measureRuns/2]
}

// TestMeasure measures views, counts, and counts of batches.
func TestMeasure(t *testing.T) {
	n := *measureVertices
	if n == 0 {
		t.Skip("give -triangles.vertices")
	}
	host, err := cpu.Open(nil)
	must(t, err)
	defer host.Close()
	var all []measurement
	for name, make := range map[string]func() (graph.Edges, error){
		"roads": func() (graph.Edges, error) {
			return gen.Roads(t.Context(), host, gen.RoadsOptions{Vertices: n, Seed: 1})
		},
		"geometric": func() (graph.Edges, error) {
			return gen.Geometric(t.Context(), host, gen.GeometricOptions{Vertices: n, Seed: 1})
		},
		"rmat": func() (graph.Edges, error) {
			return gen.RMAT(t.Context(), host, gen.RMATOptions{Scale: bits.Len(uint(n)) - 1, EdgeFactor: 16, Permute: true, Seed: 1})
		},
		"actors": func() (graph.Edges, error) {
			return gen.Cliques(t.Context(), host, gen.CliquesOptions{Vertices: n / 4, MinSize: 10, MaxSize: 100, Degree: 98.9, Top: 110, Seed: 1})
		},
	} {
		if *measureGraph != "" && *measureGraph != name {
			continue
		}
		e, err := make()
		must(t, err)
		g, err := graph.Build(t.Context(), host, e, nil)
		must(t, err)
		all = append(all, measure(t, devicetest.Open(t), name, g, e))
	}
	text, err := json.MarshalIndent(all, "", "  ")
	must(t, err, os.WriteFile(*measureJSON, append(text, '\n'), 0o666))
}

func measure(t *testing.T, dev device.Device, name string, g *graph.CSR, e graph.Edges) measurement {
	t.Helper()
	b := on(t, dev)
	m := measurement{Graph: name, Vertices: g.Vertices(), Edges: g.Edges()}
	there := b.upload(g.Offsets(), g.Targets())
	m.OrientMillis = median(t, func() error {
		view, err := b.k.Orient(t.Context(), b.s, there)
		must(t, err)
		return view.Free()
	})
	view, err := b.k.Orient(t.Context(), b.s, there)
	must(t, err)
	offsets, targets := devicetest.Download(t, b.s, view.Offsets), devicetest.Download(t, b.s, view.Neighbors)
	for _, v := range targets {
		m.Wedges += offsets[v+1] - offsets[v]
	}
	m.CountMillis = median(t, func() (err error) {
		m.Triangles, err = b.k.Count(t.Context(), b.s, view)
		return err
	})
	must(t, view.Free())
	m.Batch = min(1<<20, len(e.From))
	picked := graph.Edges{From: make([]uint32, m.Batch), To: make([]uint32, m.Batch)}
	for i := range m.Batch {
		j := i * (len(e.From) / m.Batch)
		picked.From[i], picked.To[i] = e.From[j], e.To[j]
	}
	from, to := devicetest.Upload(t, b.s, picked.From), devicetest.Upload(t, b.s, picked.To)
	changing := b.changing(g, 32)
	m.OfMillis = median(t, func() error {
		_, err := b.k.Of(t.Context(), b.s, changing, from, to, device.Slice[bool]{})
		return err
	})
	return m
}
