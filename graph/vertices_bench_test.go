package graph

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/workload"
)

// BenchmarkDeleteVertices deletes vertices listed on the device from graphs of 2^20 vertices (2^12
// on a CPU) with 16 arcs each. On a GPU it measures both ways of deletion.
func BenchmarkDeleteVertices(b *testing.B) {
	for _, directed := range []bool{false, true} {
		for _, hubs := range []bool{false, true} {
			b.Run(fmt.Sprintf("directed=%v/hubs=%v", directed, hubs), func(b *testing.B) { benchVertices(b, directed, hubs) })
		}
	}
}

func benchVertices(b *testing.B, directed, hubs bool) {
	dev := devicetest.Open(b)
	n := 1 << 20
	if isHost(dev) {
		n = 1 << 12
	}
	g, err := New(dev, &Options{Directed: directed})
	must(b, err)
	m := 8 * n
	if directed {
		m = 16 * n
	}
	from, to := make([]uint32, m), make([]uint32, m)
	for i := range from {
		u, v := workload.Random(1, uint64(2*i)), workload.Random(1, uint64(2*i+1))
		if hubs { // a squared uniform number: up to some 8,000 arcs
			u, _ = bits.Mul64(u, u)
		}
		from[i], to[i] = uint32(workload.Below(u, uint64(n))), uint32(workload.Below(v, uint64(n)))
	}
	_, err = g.Insert(b.Context(), from, to, nil)
	must(b, err)
	for shift := 7; shift <= 17; shift += 2 {
		if size := 1 << shift; size <= n/8 {
			// A directed graph is always swept.
			for _, share := range []int{1 << 20, 1}[:map[bool]int{true: 1, false: 2}[directed]] {
				b.Run(fmt.Sprintf("%d/share=%d", size, share), func(b *testing.B) { benchBatch(b, g, from, to, size, share) })
			}
		}
	}
	must(b, g.Close())
}

// benchBatch deletes vertices and inserts their edges again. It measures only the deletion.
func benchBatch(b *testing.B, g *Graph, from, to []uint32, size, share int) {
	ctx, s := b.Context(), devicetest.NewStream(b, g.Device())
	if e, ok := g.engine.(*gpuEngine); ok {
		e.share = share
	}
	var times []time.Duration
	for round := range b.N {
		deleted := make([]bool, g.vertices)
		ids := make([]uint32, size)
		for i := range ids {
			ids[i] = uint32(workload.Below(workload.Random(uint64(round)+7, uint64(i)), uint64(g.vertices)))
			deleted[ids[i]] = true
		}
		var back Edges
		for i, u := range from {
			if deleted[u] || deleted[to[i]] {
				back.From, back.To = append(back.From, u), append(back.To, to[i])
			}
		}
		on := devicetest.Upload(b, s, ids)
		must(b, s.Sync(ctx))
		start := time.Now()
		must(b, g.DeleteVerticesOn(s, on))
		must(b, s.Sync(ctx))
		times = append(times, time.Since(start))
		_, err := g.Insert(ctx, back.From, back.To, nil)
		must(b, err)
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "µs/batch")
	b.ReportMetric(float64(size)/times[len(times)/2].Seconds()/1e6, "Mvertices/s")
}
