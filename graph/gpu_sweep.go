package graph

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

// To delete many vertices, kernels scan all rows for deleted neighbors and rewrite the rows that
// have any (graph_sweep.cuh). A thread block processes a bin, which is a range of vertices. The
// device allocates the planned blocks as for a binned batch, so it does not wait for the host. A
// directed graph is scanned because its rows do not store the sources of edges. The scan is as fast
// as for an undirected graph.

// The number of vertices of a bin is a multiple of sweepRows (kRows in graph_bins.cuh).
const sweepRows = 256

// A batch is deleted by a sweep if it has at least one in sweepShare vertices. Such a sweep costs
// at most as much as deleting the arcs of these vertices.
const sweepShare = 64

// sweep is a running deletion of vertices by a scan.
type sweep struct {
	toDelete device.Ptr // bitmap of the vertices to delete
	width    int        // number of vertices of a bin
	binPlan  binnedBatch
	bytes    int
}

// shouldSweep reports whether to delete n vertices by a sweep.
func (e *gpuEngine) shouldSweep(n int) bool {
	return e.opts.Directed || n >= e.vertices/e.share
}

// layOutSweep assigns memory to a sweep. at is the first address of the memory.
func (e *gpuEngine) layOutSweep(at device.Ptr) *sweep {
	n, k := max(1, e.vertices), prim.Carve(at)
	w := &sweep{toDelete: k.Alloc(bitmapBytes(n)), width: sweepRows}
	if n > sweepRows*maxBins {
		w.width = (n + sweepRows*maxBins - 1) / (sweepRows * maxBins) * sweepRows
	}
	bins := (n + w.width - 1) / w.width
	w.binPlan.bins.number = uint32(bins)
	w.binPlan.binned = binnedRef{
		numbers: k.Alloc(4 * bins), segments: k.Alloc(int(unsafe.Sizeof(binnedSegment{})) * bins * w.width), counts: k.Alloc(4 * groups * bins),
		sums: e.word(sumsAt), groups: e.word(smallAt) + groupsOffset, most: uint32(w.width),
	}
	w.binPlan.list = k.Alloc(4 * bins * w.width)
	w.binPlan.covered = e.vertices
	w.bytes = int(device.Ptr(k) - at)
	return w
}

// deleteBySweep deletes vertices and returns the number of vertices that were present.
func (e *gpuEngine) deleteBySweep(ctx context.Context, s *device.Stream, b *batch.Batch) (uint64, error) {
	if err := e.extra.Grow(&e.Queue, e.layOutSweep(0).bytes); err != nil {
		return 0, err
	}
	w := e.layOutSweep(e.extra.Buf.Ptr)
	c := &gpuChange{gpuEngine: e, s: s, binPlan: w.binPlan, swept: w, binned: true, headAt: e.word(smallAt)}
	c.binPlan.blocksBefore, c.binPlan.vertices = e.blocks, e.vertices
	err := e.submitFinal(e.SubmitVisible, s, func() error {
		for _, step := range []func() error{
			c.clearWords,
			func() error { return s.Fill(w.toDelete, 0, bitmapBytes(max(1, e.vertices))/4) },
			func() error {
				return e.markVertices(s, b, w.toDelete, c.headAt+device.Ptr(unsafe.Offsetof(control{}.changed)))
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
		err = c.readResults(ctx)
	}
	switch {
	case err != nil:
		return 0, err
	case c.results.granted != 0:
		c.countGranted()
		c.growAllStacks()
	default:
		err = c.write(ctx)
	}
	return c.results.changed, err
}

// planSweep submits the kernel that scans all rows.
func (c *gpuChange) planSweep() error {
	newest, held := c.newestSnapshot()
	p := sweepParams{graph: refOf(c.currentView()), control: c.headAt, binned: c.binPlan.binned, doomed: c.swept.toDelete, width: uint32(c.swept.width), newest: newest}
	if held {
		p.held = 1
	}
	if c.opts.SelfLoops {
		p.loops = 1
	}
	return device.Launch(c.s, c.kernels.sweep, device.Dim{X: int(c.binPlan.bins.number)}, gpu.Block, &p)
}
