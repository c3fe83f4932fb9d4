package bench

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
	"github.com/weftgo/weft/internal/workload"
)

// BenchmarkFollowingOn measures results that follow batches of random edges on the device, in edges
// per second, and ranks computed from scratch, including the export of the graph.
func BenchmarkFollowingOn(b *testing.B) {
	for _, name := range []string{"actors", "roads"} {
		for _, n := range []int{1, 1 << 10, 1 << 16, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) { benchFollowing(b, name, n) })
		}
	}
}

func benchFollowing(b *testing.B, name string, n int) {
	ctx, dev := b.Context(), devicetest.Open(b)
	s := devicetest.NewStream(b, dev)
	c, err := benchGraphs[name]()
	must(b, err)
	g, err := graph.New(dev, nil)
	must(b, err)
	_, err = g.InsertCSR(ctx, c)
	must(b, err)
	d, err := g.CSROn(ctx, s)
	must(b, err)
	ranks, err := algo.NewRankingOn(ctx, s, d, nil)
	must(b, err)
	parts, err := algo.NewConnectedOn(ctx, s, d)
	must(b, err)
	must(b, d.Free())
	round := uint64(0)
	batch := func() graph.DeviceEdges {
		from, to := make([]uint32, n), make([]uint32, n)
		for i := range from {
			from[i] = uint32(workload.Below(workload.Random(round, uint64(2*i)), uint64(c.Vertices())))
			to[i] = uint32(workload.Below(workload.Random(round, uint64(2*i+1)), uint64(c.Vertices())))
		}
		round++
		e := graph.DeviceEdges{From: devicetest.Upload(b, s, from), To: devicetest.Upload(b, s, to), Done: devicetest.Upload(b, s, make([]bool, n))}
		must(b, errors.Join(g.InsertOn(s, e.From, e.To, e.Done), s.Sync(ctx)))
		return e
	}
	follow := func(what string, run func(e graph.DeviceEdges) (steps int, err error)) {
		b.Run(what, func(b *testing.B) {
			steps := 0
			for range b.N {
				b.StopTimer()
				e := batch()
				b.StartTimer()
				more, err := run(e)
				must(b, err)
				steps += more
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Medges/s")
			b.ReportMetric(float64(steps)/float64(b.N), "steps")
		})
	}
	follow("connected", func(e graph.DeviceEdges) (int, error) { return 0, parts.Insert(ctx, s, e) })
	anew, err := device.Make[uint64](dev, c.Vertices())
	must(b, err)
	follow("anew", func(e graph.DeviceEdges) (int, error) {
		d, err := g.CSROn(ctx, s)
		if err != nil {
			return 0, err
		}
		r, err := algo.PageRankOn(ctx, s, d, anew, nil)
		return r.Iterations, errors.Join(err, d.Free())
	})
	must(b, ranks.Free())
	d, err = g.CSROn(ctx, s)
	must(b, err)
	ranks, err = algo.NewRankingOn(ctx, s, d, nil)
	must(b, err)
	follow("ranking", func(e graph.DeviceEdges) (int, error) {
		r, err := ranks.Update(ctx, s, g, e, graph.DeviceEdges{})
		return r.Iterations, err
	})
	must(b, errors.Join(d.Free(), ranks.Free(), parts.Free(), anew.Free(), g.Close()))
}
