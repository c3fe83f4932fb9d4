package algo

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/workload"
)

// SampleOptions configures [Sample]. The zero value and nil select the defaults.
type SampleOptions struct {
	// Seed determines the sample. A seed yields the same sample on any device and any number of
	// cores.
	Seed uint64
	// Replace allows a neighbor to be drawn several times. By default each neighbor is drawn at
	// most once, and all neighbors are drawn if there are at most fanout.
	Replace bool
}

// maxListed is the maximum number of draws for which duplicates are searched in a list.
const maxListed = 64

// Sample draws neighbors of vertices. All neighbors of a vertex are equally likely. out has a row
// of fanout elements for each vertex; unused elements receive [NoVertex]. Sample returns the number
// of neighbors drawn. A vertex that is listed several times gets a separate sample each time.
// Sample panics if out does not have fanout elements for each vertex.
func Sample(ctx context.Context, dev device.Device, g *graph.CSR, vertices []uint32, fanout int, out []uint32, opts *SampleOptions) (drawn int, err error) {
	mustMatchSample(len(vertices), fanout, len(out))
	if !isHost(dev) {
		return sampleByKernels(ctx, dev, g, vertices, fanout, out, opts)
	}
	h, err := host(dev, "sample")
	if err != nil {
		return 0, err
	}
	for i, v := range vertices {
		if uint64(v) >= uint64(g.Vertices()) {
			return 0, vertexError(i, v, g.Vertices())
		}
	}
	var o SampleOptions
	if opts != nil {
		o = *opts
	}
	var sum atomic.Int64
	h.Parallel(len(vertices), rows, func(lo, hi int) {
		if ctx.Err() != nil {
			return
		}
		part := 0
		for i := lo; i < hi; i++ {
			row := out[i*fanout : (i+1)*fanout]
			s := sampler{seed: workload.Random(o.Seed, uint64(i)), from: g.Neighbors(vertices[i])}
			n := s.draw(row, o.Replace)
			part += n
			for j := n; j < fanout; j++ {
				row[j] = NoVertex
			}
		}
		sum.Add(int64(part))
	})
	return int(sum.Load()), ctx.Err()
}

// sampler draws entries of one row.
type sampler struct {
	seed uint64
	from []uint32
}

// uniform returns random number i, uniform in [0,n).
func (s *sampler) uniform(i, n int) int {
	return int(workload.Below(workload.Random(s.seed, uint64(i)), uint64(n)))
}

// draw draws entries into row and returns their number.
func (s *sampler) draw(row []uint32, replace bool) int {
	n, k := len(s.from), len(row)
	switch {
	case n == 0:
		return 0
	case replace:
		for j := range row {
			row[j] = s.from[s.uniform(j, n)]
		}
	case n <= k:
		return copy(row, s.from)
	case k <= maxListed:
		s.floyd(row)
	default:
		s.selectInOrder(row)
	}
	return k
}

// floyd draws distinct entries. Each set of entries is equally likely (Bentley, Floyd: "A Sample of
// Brilliance", 1987).
func (s *sampler) floyd(row []uint32) {
	n, k := len(s.from), len(row)
	for j := range k {
		last := n - k + j
		at := uint32(s.uniform(j, last+1))
		if slices.Contains(row[:j], at) {
			at = uint32(last)
		}
		row[j] = at
	}
	for j, at := range row {
		row[j] = s.from[at]
	}
}

// selectInOrder draws distinct entries in one pass over all entries. Each set of entries is equally
// likely (Knuth, algorithm 3.4.2S).
func (s *sampler) selectInOrder(row []uint32) {
	n, j := len(s.from), 0
	for i, u := range s.from {
		if s.uniform(i, n-i) < len(row)-j {
			row[j] = u
			if j++; j == len(row) {
				return
			}
		}
	}
}
