package bench

import (
	"context"
	"flag"
	"sync"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/gen"
)

var benchVertices = flag.Int("algo.vertices", 1<<12, "`vertices` of the graphs of benchmarks; 1048576 is what results are for")

// benchGraphs are generated graphs, each made once.
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

// bitsOf returns the scale of a graph of n vertices.
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

// BenchmarkOn measures algorithms on rows that lie on the device, in arcs of the graph per second;
// for PageRank, per iteration.
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
				_, err := algo.PageRankOn(b.Context(), s, d.DeviceCSR, longs, &algo.PageRankOptions{Iterations: 40, Tolerance: -1})
				return err
			})
			rate("bfs", 1, func() error { _, err := algo.BFSOn(b.Context(), s, d.DeviceCSR, 0, words); return err })
			rate("components", 1, func() error { _, err := algo.ComponentsOn(b.Context(), s, d.DeviceCSR, words); return err })
			rate("sssp", 1, func() error { _, err := algo.SSSPOn(b.Context(), s, d, 0, longs); return err })
			if !g.Directed() {
				rate("kcore", 1, func() error { _, err := algo.KCoreOn(b.Context(), s, d.DeviceCSR, words); return err })
			}
			rate("triangles", 1, func() error { _, err := algo.TrianglesOn(b.Context(), s, d.DeviceCSR); return err })
			all, drawn := devicetest.Upload(b, s, numbers(g.Vertices())), devicetest.Upload(b, s, make([]uint32, 10*g.Vertices()))
			rate("sample ten", 1, func() error { _, err := algo.SampleOn(b.Context(), s, d.DeviceCSR, all, 10, drawn, nil); return err })
			must(b, s.Sync(b.Context()))
			must(b, d.Free())
		})
	}
}

// numbers returns the numbers below n.
func numbers(n int) []uint32 {
	all := make([]uint32, n)
	for i := range all {
		all[i] = uint32(i)
	}
	return all
}

// BenchmarkTrianglesOf measures counting the triangles of a batch, in edges per second: of edges
// that the graph has, and of random new ones. Batches lie in host memory, or in that of a GPU with
// the graph.
func BenchmarkTrianglesOf(b *testing.B) {
	for _, name := range []string{"actors", "rmat"} {
		g, err := benchGraphs[name]()
		must(b, err)
		dev := devicetest.Open(b)
		c, err := graph.New(dev, nil)
		must(b, err)
		_, err = c.InsertCSR(b.Context(), g)
		must(b, err)
		size := min(1<<20, g.Edges()/4)
		var old, fresh graph.Edges
		for u, v := range g.All() {
			if at := len(old.From); at < size && u < v && (int(u)+int(v))%(g.Edges()/size) == 0 {
				old.From, old.To = append(old.From, u), append(old.To, v)
			}
		}
		for i := range uint64(size) {
			fresh.From = append(fresh.From, uint32(workload.Below(workload.Random(1, i), uint64(g.Vertices()))))
			fresh.To = append(fresh.To, uint32(workload.Below(workload.Random(2, i), uint64(g.Vertices()))))
		}
		_, err = c.Insert(b.Context(), fresh.From, fresh.To, nil)
		must(b, err)
		for what, e := range map[string]graph.Edges{"old": old, "fresh": fresh} {
			b.Run(name+"/"+what, func(b *testing.B) {
				for b.Loop() {
					_, err := algo.TrianglesOf(b.Context(), dev, c, e)
					must(b, err)
				}
				b.ReportMetric(float64(len(e.From))*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gedges/s")
			})
			if dev.Properties().Kind == device.CPU {
				continue
			}
			b.Run(name+"/"+what+"/on", func(b *testing.B) {
				s := devicetest.NewStream(b, dev)
				from, to := devicetest.Upload(b, s, e.From), devicetest.Upload(b, s, e.To)
				for b.Loop() {
					_, err := algo.TrianglesOfOn(b.Context(), s, c, from, to)
					must(b, err)
				}
				b.ReportMetric(float64(len(e.From))*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gedges/s")
			})
		}
		must(b, c.Close())
	}
}
