package graph

import (
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

// A binned batch is not sorted as a whole. Its arcs go to bins, which are ranges of vertices. A
// block of threads per bin sorts the arcs, resolves the operations and plans the rows
// (graph_few.cuh). Another kernel writes the rows if memory suffices (graph_bins.cuh). So the
// device does not wait for the host.

// Constants compiled into the kernels (graph_few.cuh, graph_change.cuh).
const (
	binArcs       = 2048
	groups        = 256
	binsSummed    = 64
	arcsPerLister = 4 // arcs per thread in the kernel that lists free blocks
	chunkSize     = 2048
	countStride   = 8 // words from the count of a bin to the count of the next bin
)

// The bins of a small batch have at most smallBinArcs arcs each, so that each multiprocessor gets
// bins. The bins of a larger batch have up to largeBinArcs arcs, which keep a thread block busy.
// These numbers are averages: a bin has memory for binArcs arcs, or for all arcs of a smaller
// batch. A batch of more than maxBinnedArcs arcs is sorted.
const (
	smallBinArcs  = 256
	maxSmallBins  = 512
	largeBinArcs  = 1024
	maxBins       = 1 << 14
	maxBinnedArcs = 1 << 23
)

// headSpace is the size of the results for the host. The sums and counts of the bins follow. The
// last change has left all these words zero.
const (
	headSpace  = (headBytes + 255) &^ 255
	sumsAt     = smallAt + headSpace
	countsAt   = sumsAt + 4*groups*(maxBins/binsSummed)
	smallBytes = countsAt + 4*countStride*maxBins - smallAt
)

// binsFor returns the number of bins for a batch with the given number of arcs, without bins for
// new vertices.
func binsFor(arcs int) int {
	return max((arcs+largeBinArcs-1)/largeBinArcs, min((arcs+smallBinArcs-1)/smallBinArcs, maxSmallBins))
}

// spareVertices returns how many new vertices the bins of a graph with the given number of vertices
// cover.
func spareVertices(vertices int) int { return vertices/4 + 64 }

// binnedBatch is the plan of a binned batch.
type binnedBatch struct {
	bins         binsRef
	binned       binnedRef
	arcs         arcsRef    // arcs that lie in bins
	list         device.Ptr // list of the free blocks that the batch takes
	maxBins      int        // number of bins with memory
	covered      int        // number of vertices that bins cover
	blocksBefore blocks     // block counts before the change
	vertices     int        // number of records before the change
}

// binOverflow records that a bin overflowed because few vertices had too many arcs. The next
// batches of at least as many arcs are sorted. Their number grows with each further overflow.
type binOverflow struct {
	minArcs    int // arcs of the smallest batch that overflowed, or 0
	remaining  int // number of batches to sort before the next attempt
	retryAfter int
}

// maxRetryAfter is the maximum number of batches to sort before the next attempt.
const maxRetryAfter = 256

func (c *binOverflow) record(arcs int) {
	c.retryAfter = min(max(4, 2*c.retryAfter), maxRetryAfter)
	if c.minArcs == 0 || arcs < c.minArcs {
		c.minArcs = arcs
	}
	c.remaining = c.retryAfter
}

// shouldSort reports whether to sort a batch with the given number of arcs.
func (c *binOverflow) shouldSort(arcs int) bool {
	if c.minArcs == 0 || arcs < c.minArcs {
		return false
	}
	if c.remaining > 0 {
		c.remaining--
		return true
	}
	c.minArcs = 0
	return false
}

// overflow returns the record of overflows for changes of this kind: batches of edges, or arcs of
// deleted vertices.
func (c *gpuChange) overflow() *binOverflow { return &c.overflows[c.arcs.empties] }

// layOutBins assigns memory to bins. at is the first address of the memory. The result is the end
// of the bins.
func (c *gpuChange) layOutBins(at device.Ptr) device.Ptr {
	c.binPlan = binnedBatch{}
	if c.n > maxBinnedArcs || c.arcs.multi != 0 && c.kinds != 0 {
		return at
	}
	k, nBins, size := prim.Carve(at), binsFor(c.n), min(binArcs, c.n)
	// perBin, the vertices per bin, allows for one number that is no vertex and for rounding.
	binLimit, perBin := min(nBins+spareVertices(nBins), maxBins), min(size, c.opts.MaxVertices/nBins+2)
	c.binPlan.bins = binsRef{
		words: k.Alloc(8 * binLimit * size), counts: c.word(countsAt), size: uint32(size),
		crowded: c.word(smallAt) + device.Ptr(unsafe.Offsetof(control{}.crowded)),
	}
	// Each large row may end with a partial chunk.
	maxChunks := c.large*unitEntries/chunkSize + c.large/unitsOf(largeClass) + 1
	c.binPlan.binned = binnedRef{
		numbers: k.Alloc(4 * binLimit), segments: k.Alloc(int(unsafe.Sizeof(binnedSegment{})) * binLimit * perBin), counts: k.Alloc(4 * groups * binLimit),
		sums: c.word(sumsAt), groups: c.word(smallAt) + groupsOffset, chunks: k.Alloc(int(unsafe.Sizeof(rowChunk{})) * maxChunks), most: uint32(perBin), room: uint32(maxChunks),
	}
	c.binPlan.list = k.Alloc(4 * binLimit * perBin)
	c.binPlan.maxBins = binLimit
	c.binPlan.arcs = c.arcs
	c.binPlan.arcs.places, c.binPlan.arcs.nets, c.binPlan.arcs.control = k.Alloc(4*binLimit*size), k.Alloc(binLimit*size), c.word(smallAt)
	return device.Ptr(k)
}

// assignBins computes the number and width of the bins, or returns false to sort the batch.
func (c *gpuChange) assignBins() bool {
	b := &c.binPlan.bins
	if b.counts == 0 || c.overflow().shouldSort(c.n) {
		return false
	}
	c.binPlan.covered = min(c.assumed+spareVertices(c.assumed), c.opts.MaxVertices)
	c.bits = c.bitsOf(c.binPlan.covered + int(c.arcs.empties))
	nBins := binsFor(c.n)
	width := (c.assumed + nBins - 1) / nBins
	number, low := (c.binPlan.covered+width-1)/width, 0
	if !c.rowless() {
		low = bits.Len(uint(c.n - 1))
	}
	if bits.Len(uint(width))+c.bits+low > 63 || number > c.binPlan.maxBins {
		return false
	}
	b.number, b.width, b.bits, b.low = uint32(number), uint32(width), uint32(c.bits), uint32(low)
	return true
}

// planBins submits the kernels that plan a binned batch.
func (c *gpuChange) planBins() error {
	c.headAt, c.binPlan.arcs.bits, c.binPlan.arcs.empties = c.word(smallAt), uint32(c.bits), c.arcs.empties
	c.binPlan.blocksBefore, c.binPlan.vertices = c.blocks, c.gpuEngine.vertices
	if err := c.clearWords(); err != nil {
		return err
	}
	if err := c.fill(c.keysAt, c.bits, c.binPlan.bins); err != nil {
		return err
	}
	newest, held := c.newestSnapshot()
	p := fewParams{graph: refOf(c.currentView()), arcs: c.binPlan.arcs, bins: c.binPlan.bins, binned: c.binPlan.binned, ok: c.ok, covered: uint64(c.binPlan.covered), newest: newest}
	if held {
		p.held = 1
	}
	return device.Launch(c.s, c.kernels.few, device.Dim{X: int(c.binPlan.bins.number)}, gpu.Block, &p)
}

// clearWords zeroes the words that kernels add to.
func (c *gpuChange) clearWords() error {
	zeroed := c.zeroed
	c.zeroed = false
	if zeroed {
		return nil
	}
	return c.s.Fill(c.headAt, 0, smallBytes/4)
}

// writeBins submits the kernels that write the rows if memory suffices. If copyResults is true, it
// also submits the copy of the results to the host.
func (c *gpuChange) writeBins(copyResults bool) error {
	if err := c.sendPiles(); err != nil {
		return err
	}
	m, control := c.memory(), c.headAt
	place := placeFewParams{
		control: control, binned: c.binPlan.binned, piles: c.word(pilesAt), grants: c.word(grantsAt), granted: c.word(grantedAt), list: c.binPlan.list,
		covered: uint64(c.binPlan.covered), units: uint64(c.binPlan.blocksBefore.units), room: uint64(min(m.pool.buf.Size/c.unit(), maxUnits)), vertices: uint32(c.binPlan.vertices),
		records: uint32(min(m.records.buf.Size/recordBytes, 8*m.alive.buf.Size)), bins: c.binPlan.bins.number,
	}
	write := writeFewParams{
		graph: refOf(c.currentView()), arcs: c.binPlan.arcs, bins: c.binPlan.bins, binned: c.binPlan.binned, granted: place.granted, grants: place.grants, piles: place.piles, list: place.list,
		weights: c.weights, present: c.word(presentAt), zero: control, zeros: headBytes / 4, epoch: c.epoch,
	}
	if c.opts.Directed {
		write.directed = 1
	}
	if n := len(c.retired); !copyResults && n > 0 {
		place.ghosts, write.ghosts = uint32(c.retired[n-1].n), c.retired[n-1].buf.Ptr
	}
	// One thread block per sum, and more for the list.
	sums := (int(c.binPlan.bins.number) + binsSummed - 1) / binsSummed
	rows := c.n
	if c.swept != nil {
		rows = c.binPlan.covered
	}
	err := device.Launch(c.s, c.kernels.placeFew, device.Dim{X: max(sums, gpu.Resident(c.Dev, rows/arcsPerLister, 4).X)}, gpu.Block, &place)
	if err == nil && copyResults {
		if err = c.s.CopyOutAsync(c.pinned[:headBytes], control); err == nil {
			err = c.s.Record(c.resultsReady)
		}
	}
	if err == nil {
		err = c.launchRows(&write)
	}
	c.zeroed = err == nil && !copyResults
	return err
}

// launchRows submits the kernels that write rows.
func (c *gpuChange) launchRows(p *writeFewParams) error {
	bins := device.Dim{X: int(p.bins.number)}
	if w := c.swept; w != nil {
		p.doomed, p.width, p.vertices = w.toDelete, uint32(w.width), uint32(w.binPlan.covered)
		return device.Launch(c.s, c.kernels.sweepWrite, bins, gpu.Block, p)
	}
	err := device.Launch(c.s, c.kernels.writeFew, bins, gpu.Block, p)
	if err == nil && c.binPlan.blocksBefore.large > 0 {
		err = gpu.RetryOnce(func() error {
			return device.Launch(c.s, c.kernels.writeChunks, gpu.Wave(c.Dev, int(c.binPlan.binned.room)*gpu.BlockThreads), gpu.Block, p)
		})
	}
	return err
}

// sendPiles copies the piles to the device unless they are current. The device may not yet have
// read the previous piles, if the host grew stacks after reading the results of that change. So the
// copy does not use page-locked memory, which would require a wait.
func (c *gpuChange) sendPiles() error {
	if c.pilesCurrent {
		return nil
	}
	var piles [classes]pile
	for class := range piles {
		b := c.gpuEngine.stacks[class]
		piles[class] = pile{at: b.Ptr, top: uint32(c.binPlan.blocksBefore.free[class]), size: uint32(b.Size / 4)}
	}
	err := c.s.CopyIn(c.word(pilesAt), unsafe.Slice((*byte)(unsafe.Pointer(&piles)), pileBytes))
	c.pilesCurrent = err == nil
	return err
}

// countGranted counts the change after the device has allocated its blocks.
func (c *gpuChange) countGranted() {
	needed, released := c.blockCounts()
	c.vertices = max(c.gpuEngine.vertices, int(c.results.end))
	_, units := c.blockSources(&needed)
	c.countChange(&needed, &released, units)
	c.zeroed = true
}

// sumGroups converts the number of segments in each group to the start of each group.
func (c *gpuChange) sumGroups() {
	before := uint32(0)
	for i, n := range c.firsts {
		c.firsts[i], before = before, before+n
	}
}
