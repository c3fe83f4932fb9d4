package graph

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

// Many vertices are deleted by looking through all rows for neighbors that go, and rows that have some are written anew (graph_sweep.cuh): bins are of neighboring
// vertices, a block's work each, and what a block plans is granted as for a batch in bins. So the device does not wait for the host, and a directed
// graph, in whose rows nothing says where edges come from, is as fast as an undirected one.

// sweepRows is how many vertices a bin has, or a multiple (kRows in graph_bins.cuh).
const sweepRows = 256

// sweepShare: to sweep costs as much, at most, as the arcs of one vertex in so many.
const sweepShare = 64

// sweep is vertices that are deleted so.
type sweep struct {
	doomed device.Ptr // a bit for each vertex
	width  int        // of a bin, in vertices
	few    gpuFew
	bytes  int
}

// sweeps reports whether a batch of so many vertices is swept out.
func (e *gpuEngine) sweeps(n int) bool {
	return e.opts.Directed || n >= e.vertices/e.share
}

// layOutSweep gives a sweep its memory from a place on.
func (e *gpuEngine) layOutSweep(at device.Ptr) *sweep {
	n, k := max(1, e.vertices), prim.Carve(at)
	w := &sweep{doomed: k.Take(aliveBytes(n)), width: sweepRows}
	if n > sweepRows*mostBins {
		w.width = (n + sweepRows*mostBins - 1) / (sweepRows * mostBins) * sweepRows
	}
	bins := (n + w.width - 1) / w.width
	w.few.bins.number = uint32(bins)
	w.few.binned = binnedRef{
		numbers: k.Take(4 * bins), segments: k.Take(int(unsafe.Sizeof(binnedSegment{})) * bins * w.width), counts: k.Take(4 * groups * bins),
		sums: e.word(sumsAt), groups: e.word(smallAt) + groupsIn, most: uint32(w.width),
	}
	w.few.list = k.Take(4 * bins * w.width)
	w.few.covered = e.vertices
	w.bytes = int(device.Ptr(k) - at)
	return w
}

// sweepOut deletes vertices, and returns how many there were.
func (e *gpuEngine) sweepOut(ctx context.Context, s *device.Stream, b *batch.Batch) (uint64, error) {
	if err := e.extra.Room(&e.Queue, e.layOutSweep(0).bytes); err != nil {
		return 0, err
	}
	w := e.layOutSweep(e.extra.Buf.Ptr)
	c := &gpuChange{gpuEngine: e, s: s, few: w.few, swept: w, binned: true, headAt: e.word(smallAt)}
	c.few.before, c.few.vertices = e.blocks, e.vertices
	err := done(e.SubmitVisible, s, func() error {
		for _, step := range []func() error{
			c.begin,
			func() error { return s.Fill(w.doomed, 0, aliveBytes(max(1, e.vertices))/4) },
			func() error {
				return e.mark(s, b, w.doomed, c.headAt+device.Ptr(unsafe.Offsetof(control{}.changed)))
			},
			c.planSweep,
			func() error { return c.writeBins(true) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = c.listen(ctx)
	}
	switch {
	case err != nil:
		return 0, err
	case c.told.granted != 0:
		c.granted()
		c.pileAll()
	default:
		err = c.write(ctx)
	}
	return c.told.changed, err
}

// planSweep submits looking through all rows.
func (c *gpuChange) planSweep() error {
	newest, held := c.newest()
	p := sweepParams{graph: refOf(c.now()), control: c.headAt, binned: c.few.binned, doomed: c.swept.doomed, width: uint32(c.swept.width), newest: newest}
	if held {
		p.held = 1
	}
	if c.opts.SelfLoops {
		p.loops = 1
	}
	return device.Launch(c.s, c.kernels.sweep, device.Dim{X: int(c.few.bins.number)}, gpu.Block, &p)
}
