package graph

import (
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

// Batches of few arcs have fewer launches: arcs go to bins by the leading bits of their keys, of which a block each puts them in
// order, settles what becomes of edges, and plans rows (graph_few.cuh). What is written then is written as for many.

// As compiled in (graph_few.cuh).
const (
	binArcs = 2048
	groups  = 256
)

// There are as many bins as have usualArcs of them, within bounds, and they have memory for more: binArcs, unless there are not so many. Up to fewArcs a batch is
// of few.
const (
	mostBins  = 256 // a thread adds up what each has
	usualArcs = 256
	fewArcs   = 2 * mostBins * usualArcs
)

// binsOf is how many bins so many arcs go to: a power of two.
func binsOf(arcs int) int { return min(mostBins, 1<<bits.Len(uint((arcs-1)/usualArcs))) }

// gpuFew is what they need beside what many need.
type gpuFew struct {
	bins   binsRef
	binned binnedRef
}

// layOutFew gives bins their memory, where there are few arcs. What kernels add to lies behind the head, and is zero before.
func (c *gpuChange) layOutFew(k *prim.Carve, cleared bool) {
	size, n := min(binArcs, c.n), binsOf(c.n)
	switch {
	case c.n > fewArcs || c.arcs.multi != 0 && c.kinds != 0:
	case cleared:
		c.few.bins.counts = k.Take(4 * n)
	default:
		c.few.bins.keys, c.few.bins.arcs, c.few.bins.size = k.Take(8*n*size), k.Take(4*n*size), uint32(size)
		c.few.bins.crowded = c.headAt + device.Ptr(unsafe.Offsetof(control{}.crowded))
		c.few.binned = binnedRef{segments: k.Take(4 * (n + 1)), counts: k.Take(4 * n * groups), groups: c.headAt + groupsIn}
	}
}

// isFew reports whether this is a batch of few arcs, as long as there are not too many of a few vertices.
func (c *gpuChange) isFew() bool { return c.few.bins.counts != 0 && !c.crowded }

// planFew is plan for few arcs.
func (c *gpuChange) planFew(settle *settleParams, plan *planParams) error {
	bins := &c.few.bins
	digit := min(c.bits, bits.Len(uint(binsOf(c.n)))-1)
	bins.number, bins.shift = 1<<digit, uint32(2*c.bits-digit)
	if c.rowless() {
		bins.arcs = 0
	}
	if err := c.clear(); err != nil {
		return err
	}
	if err := c.fill(c.keysAt, c.bits, *bins); err != nil {
		return err
	}
	p := fewParams{settle: *settle, plan: *plan, bins: *bins, binned: c.few.binned, keys: c.sort.To.Keys, arcs: c.sort.To.Vals}
	return device.Launch(c.s, c.kernels.few, device.Dim{X: 1 << digit}, gpu.Block, &p)
}

// addUp makes of how many segments are in each group where groups begin.
func (c *gpuChange) addUp() {
	before := uint32(0)
	for i, n := range c.firsts {
		c.firsts[i], before = before, before+n
	}
}

// placeFew submits giving rows their blocks.
func (c *gpuChange) placeFew() error {
	p := placeFewParams{graph: refOf(c.now()), rows: c.rows, binned: c.few.binned, stacks: c.word(stacksAt), most: uint32(c.most)}
	return device.Launch(c.s, c.kernels.placeFew, device.Dim{X: int(c.few.bins.number)}, gpu.Block, &p)
}
