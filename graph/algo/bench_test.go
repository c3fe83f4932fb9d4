package algo

import (
	"context"
	"flag"
	"sync"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/gen"
)

var benchVertices = flag.Int("algo.vertices", 1<<12, "`vertices` of the graphs of benchmarks; 1048576 is what results are for")

// benchGraphs are generated graphs, made once.
var benchGraphs = map[string]func() (*graph.CSR, error){
	"actors": sync.OnceValues(func() (*graph.CSR, error) {
		return generated(func(ctx context.Context, dev device.Device, n int) (graph.Edges, error) {
			return gen.Cliques(ctx, dev, gen.CliquesOptions{Vertices: n, MinSize: 10, MaxSize: 100, Degree: 98.9, Top: 110, Seed: 1})
		}, &graph.Options{})
	}),
	"rmat": sync.OnceValues(func() (*graph.CSR, error) {
		return generated(func(ctx context.Context, dev device.Device, n int) (graph.Edges, error) {
			return gen.RMAT(ctx, dev, gen.RMATOptions{Scale: bitsOf(n), EdgeFactor: 16, Permute: true, Seed: 1})
		}, &graph.Options{})
	}),
	"directed": sync.OnceValues(func() (*graph.CSR, error) {
		return generated(func(ctx context.Context, dev device.Device, n int) (graph.Edges, error) {
			return gen.RMAT(ctx, dev, gen.RMATOptions{Scale: bitsOf(n), EdgeFactor: 16, Permute: true, Seed: 1})
		}, &graph.Options{Directed: true})
	}),
	"roads": sync.OnceValues(func() (*graph.CSR, error) {
		return generated(func(ctx context.Context, dev device.Device, n int) (graph.Edges, error) {
			return gen.Roads(ctx, dev, gen.RoadsOptions{Vertices: n, Seed: 1})
		}, &graph.Options{})
	}),
}

// bitsOf is the scale of a graph of n vertices.
func bitsOf(n int) (scale int) {
	for ; n > 1; n /= 2 {
		scale++
	}
	return scale
}

func generated(edges func(context.Context, device.Device, int) (graph.Edges, error), o *graph.Options) (*graph.CSR, error) {
	host, err := cpu.Open(nil)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	e, err := edges(context.Background(), host, *benchVertices)
	if err != nil {
		return nil, err
	}
	return graph.Build(context.Background(), host, e, o)
}

// BenchmarkOn is what algorithms take where the rows lie on the device already, in arcs of the graph a second; of PageRank, an iteration.
func BenchmarkOn(b *testing.B) {
	for _, name := range []string{"actors", "rmat", "directed", "roads"} {
		b.Run(name, func(b *testing.B) {
			g, err := benchGraphs[name]()
			must(b, err)
			dev := devicetest.Open(b)
			s := devicetest.NewStream(b, dev)
			weights := make([]uint32, g.Arcs())
			for i := range weights {
				weights[i] = uint32(i)*2654435761>>25 + 1
			}
			d, err := graph.NewWeighted(g, weights).Upload(s)
			must(b, err)
			words := devicetest.Upload(b, s, make([]uint32, g.Vertices()))
			longs := devicetest.Upload(b, s, make([]uint64, g.Vertices()))
			rate := func(name string, times int, run func() error) {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						must(b, run())
					}
					b.ReportMetric(float64(times)*float64(g.Arcs())*float64(b.N)/b.Elapsed().Seconds()/1e9, "Garcs/s")
				})
			}
			rate("pagerank", 40, func() error {
				_, err := PageRankOn(b.Context(), s, d.DeviceCSR, longs, &PageRankOptions{Iterations: 40, Tolerance: -1})
				return err
			})
			rate("bfs", 1, func() error { _, err := BFSOn(b.Context(), s, d.DeviceCSR, 0, words); return err })
			rate("components", 1, func() error { _, err := ComponentsOn(b.Context(), s, d.DeviceCSR, words); return err })
			rate("sssp", 1, func() error { _, err := SSSPOn(b.Context(), s, d, 0, longs); return err })
			if !g.Directed() {
				rate("kcore", 1, func() error { _, err := KCoreOn(b.Context(), s, d.DeviceCSR, words); return err })
			}
			must(b, s.Sync(b.Context()))
			must(b, d.Free())
		})
	}
}
