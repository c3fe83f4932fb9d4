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

// As compiled in (graph_few.cuh, graph_change.cuh).
const (
	binArcs     = 2048
	groups      = 256
	countStride = 8 // words from the count of a bin to that of the next
)

// There are as many bins as have usualArcs of them, within bounds, and they have memory for more: binArcs, unless there are not so many. Up to fewArcs a batch is
// of few.
const (
	mostBins  = 256 // a thread adds up what each has
	usualArcs = 256
	fewArcs   = 2 * mostBins * usualArcs
)

// smallBytes are those that kernels of few arcs add to: the last change has left them zero.
const smallBytes = (headBytes+255)&^255 + 256 + 3*8*mostBins + 4*countStride*mostBins

// binsOf is how many bins so many arcs go to: a power of two.
func binsOf(arcs int) int { return min(mostBins, 1<<bits.Len(uint((arcs-1)/usualArcs))) }

// gpuFew is what they need beside what many need.
type gpuFew struct {
	bins   binsRef
	binned binnedRef
}

// layOutFew gives bins their memory, where there are few arcs.
func (c *gpuChange) layOutFew(k *prim.Carve) {
	if c.n > fewArcs || c.arcs.multi != 0 && c.kinds != 0 {
		return
	}
	size, n := min(binArcs, c.n), binsOf(c.n)
	c.few = gpuFew{
		bins: binsRef{
			keys: k.Take(8 * n * size), arcs: k.Take(4 * n * size), counts: c.countsAt, size: uint32(size),
			crowded: c.headAt + device.Ptr(unsafe.Offsetof(control{}.crowded)),
		},
		binned: binnedRef{segments: k.Take(4 * (n + 1)), counts: k.Take(4 * n * groups), groups: c.headAt + groupsIn},
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
