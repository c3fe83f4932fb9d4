package algo

import (
	"context"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// sampleSize is the number of labels sampled to find the largest component.
const sampleSize = 1 << 10

// Components finds the connected components of a graph, or the weakly connected components if it is
// directed. labels receives for each vertex the smallest vertex of its component. Components
// returns the number of components.
//
// The algorithm is Afforest (Sutton, Ben-Nun, Barak: "Optimizing Parallel Graph Connectivity
// Computation via Subgraph Sampling", 2018). Two edges per vertex unite most of the largest
// component, so the other edges of its vertices need not be read.
func Components(ctx context.Context, dev device.Device, g *graph.CSR, labels []uint32) (count int, err error) {
	mustMatchVertices("components", g, len(labels))
	if !isHost(dev) {
		err = runUploaded(ctx, dev, "components", g.Upload, labels, func(s *device.Stream, d *graph.DeviceCSR, column device.Slice[uint32]) error {
			count, err = ComponentsOn(ctx, s, d, column)
			return err
		})
		return count, err
	}
	h, err := host(dev, "components")
	if err != nil {
		return 0, err
	}
	for v := range labels {
		labels[v] = uint32(v)
	}
	const first = 2
	unite(ctx, h, g, labels, func(_ uint32, row []uint32) []uint32 { return row[:min(first, len(row))] })
	flatten(h, labels)
	largest := uint32(NoVertex)
	if !g.Directed() { // in a directed graph, the skipped edges may be the only link of a vertex
		largest = mostFrequent(sampleLabels(labels))
	}
	unite(ctx, h, g, labels, func(v uint32, row []uint32) []uint32 {
		if len(row) <= first || atomic.LoadUint32(&labels[v]) == largest {
			return nil
		}
		return row[first:]
	})
	flatten(h, labels)
	var roots atomic.Int64
	h.Parallel(len(labels), grain, func(lo, hi int) {
		part := 0
		for v := lo; v < hi; v++ {
			if labels[v] == uint32(v) {
				part++
			}
		}
		roots.Add(int64(part))
	})
	return int(roots.Load()), ctx.Err()
}

// unite unites each vertex with the neighbors that pick selects.
func unite(ctx context.Context, h device.Host, g *graph.CSR, labels []uint32, pick func(v uint32, row []uint32) []uint32) {
	h.Parallel(g.Vertices(), rows, func(lo, hi int) {
		for v := lo; v < hi && ctx.Err() == nil; v++ {
			for _, u := range pick(uint32(v), g.Neighbors(uint32(v))) {
				link(labels, uint32(v), u)
			}
		}
	})
}

// link unites the trees of two vertices by pointing the larger root to the smaller. Labels only
// decrease, so the final root of a component is its smallest vertex.
func link(labels []uint32, u, v uint32) {
	a, b := atomic.LoadUint32(&labels[u]), atomic.LoadUint32(&labels[v])
	for a != b {
		high, low := max(a, b), min(a, b)
		at := atomic.LoadUint32(&labels[high])
		if at == low || at == high && atomic.CompareAndSwapUint32(&labels[high], high, low) {
			return
		}
		a = atomic.LoadUint32(&labels[atomic.LoadUint32(&labels[high])])
		b = atomic.LoadUint32(&labels[low])
	}
}

// flatten points each vertex to its root.
func flatten(h device.Host, labels []uint32) {
	h.Parallel(len(labels), grain, func(lo, hi int) {
		for v := lo; v < hi; v++ {
			root := atomic.LoadUint32(&labels[v])
			for parent := atomic.LoadUint32(&labels[root]); parent != root; parent = atomic.LoadUint32(&labels[root]) {
				root = parent
			}
			atomic.StoreUint32(&labels[v], root)
		}
	})
}

// sampleLabels returns the labels of sampleSize evenly spaced vertices.
func sampleLabels(labels []uint32) []uint32 {
	if len(labels) == 0 {
		return nil
	}
	sample := make([]uint32, sampleSize)
	for i := range uint64(sampleSize) {
		sample[i] = labels[i*uint64(len(labels))/sampleSize]
	}
	return sample
}

func mostFrequent(labels []uint32) uint32 {
	best, counts := uint32(NoVertex), make(map[uint32]int)
	for _, label := range labels {
		if counts[label]++; counts[label] > counts[best] {
			best = label
		}
	}
	return best
}
