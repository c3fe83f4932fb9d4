package graph

import (
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

// Batches that are not too large are not sorted as a whole. Arcs go to bins of vertices. A block of
// threads per bin sorts its arcs, resolves the operations, and plans rows (graph_few.cuh). Another
// launch writes them if memory suffices (graph_bins.cuh). So the device does not wait for the host.

// Constants compiled into the kernels (graph_few.cuh, graph_change.cuh).
const (
	binArcs     = 2048
	groups      = 256
	binsSummed  = 64
	listed      = 4 // arcs per thread that lists blocks
	chunkSize   = 2048
	countStride = 8 // words from the count of one bin to that of the next
)

// Small batches have few bins, of at most usualArcs each, so that each multiprocessor has some.
// Larger batches have bins of up to largeArcs, which keep a block busy. A bin has memory for more:
// binArcs, or all arcs of a smaller batch. Batches of more than mostBinned arcs are sorted.
const (
	usualArcs  = 256
	smallBins  = 512
	largeArcs  = 1024
	mostBins   = 1 << 14
	mostBinned = 1 << 23
)

// headSpace is the size of the results for the host; the counts of bins follow. The last change has
// left all of it zero.
const (
	headSpace  = (headBytes + 255) &^ 255
	sumsAt     = smallAt + headSpace
	countsAt   = sumsAt + 4*groups*(mostBins/binsSummed)
	smallBytes = countsAt + 4*countStride*mostBins - smallAt
)

// usualBins returns the number of bins for the given arcs, if all vertices were known.
func usualBins(arcs int) int {
	return max((arcs+largeArcs-1)/largeArcs, min((arcs+usualArcs-1)/usualArcs, smallBins))
}

// ahead returns the number of vertices, beyond the existing ones, that bins cover.
func ahead(vertices int) int { return vertices/4 + 64 }

// gpuFew is a batch in bins.
type gpuFew struct {
	bins     binsRef
	binned   binnedRef
	arcs     arcsRef    // in bins
	list     device.Ptr // free blocks that are taken
	mostBins int        // bins with memory
	covered  int        // vertices that bins cover
	before   blocks     // before the change
	vertices int        // number of records before the change
}

// crowd tracks batches that had too many arcs of a few vertices. Batches of as many arcs, or more,
// are sorted for some time. That time grows with each new attempt that fails.
type crowd struct {
	arcs     int // 0: none failed
	wait     int // batches
	patience int
}

// mostPatience is the maximum number of batches that are sorted before the next attempt.
const mostPatience = 256

func (c *crowd) meets(arcs int) {
	c.patience = min(max(4, 2*c.patience), mostPatience)
	if c.arcs == 0 || arcs < c.arcs {
		c.arcs = arcs
	}
	c.wait = c.patience
}

// sorts reports whether a batch with the given arcs should be sorted.
func (c *crowd) sorts(arcs int) bool {
	if c.arcs == 0 || arcs < c.arcs {
		return false
	}
	if c.wait > 0 {
		c.wait--
		return true
	}
	c.arcs = 0
	return false
}

// crowd returns the record for batches of this kind.
func (c *gpuChange) crowd() *crowd { return &c.crowds[c.arcs.empties] }

// layOutBins assigns memory to bins and returns its end.
func (c *gpuChange) layOutBins(at device.Ptr) device.Ptr {
	c.few = gpuFew{}
	if c.n > mostBinned || c.arcs.multi != 0 && c.kinds != 0 {
		return at
	}
	k, usual, size := prim.Carve(at), usualBins(c.n), min(binArcs, c.n)
	// vertices of a bin: an even share, one for a number that is no vertex, one for rounding
	n, most := min(usual+ahead(usual), mostBins), min(size, c.opts.MaxVertices/usual+2)
	c.few.bins = binsRef{
		words: k.Take(8 * n * size), counts: c.word(countsAt), size: uint32(size),
		crowded: c.word(smallAt) + device.Ptr(unsafe.Offsetof(control{}.crowded)),
	}
	// Each large row has one partial chunk.
	room := c.large*unitEntries/chunkSize + c.large/unitsOf(largeClass) + 1
	c.few.binned = binnedRef{
		numbers: k.Take(4 * n), segments: k.Take(int(unsafe.Sizeof(binnedSegment{})) * n * most), counts: k.Take(4 * groups * n),
		sums: c.word(sumsAt), groups: c.word(smallAt) + groupsIn, chunks: k.Take(int(unsafe.Sizeof(rowChunk{})) * room), most: uint32(most), room: uint32(room),
	}
	c.few.list = k.Take(4 * n * most)
	c.few.mostBins = n
	c.few.arcs = c.arcs
	c.few.arcs.places, c.few.arcs.nets, c.few.arcs.control = k.Take(4*n*size), k.Take(n*size), c.word(smallAt)
	return device.Ptr(k)
}

// bin assigns arcs to bins. It returns false if the batch should be sorted.
func (c *gpuChange) bin() bool {
	b := &c.few.bins
	if b.counts == 0 || c.crowd().sorts(c.n) {
		return false
	}
	c.few.covered = min(c.all+ahead(c.all), c.opts.MaxVertices)
	c.bits = c.bitsOf(c.few.covered + int(c.arcs.empties))
	usual := usualBins(c.n)
	width := (c.all + usual - 1) / usual
	number, low := (c.few.covered+width-1)/width, 0
	if !c.rowless() {
		low = bits.Len(uint(c.n - 1))
	}
	if bits.Len(uint(width))+c.bits+low > 63 || number > c.few.mostBins {
		return false
	}
	b.number, b.width, b.bits, b.low = uint32(number), uint32(width), uint32(c.bits), uint32(low)
	return true
}

// planBins is plan for a batch in bins.
func (c *gpuChange) planBins() error {
	c.headAt, c.few.arcs.bits, c.few.arcs.empties = c.word(smallAt), uint32(c.bits), c.arcs.empties
	c.few.before, c.few.vertices = c.blocks, c.gpuEngine.vertices
	if err := c.begin(); err != nil {
		return err
	}
	if err := c.fill(c.keysAt, c.bits, c.few.bins); err != nil {
		return err
	}
	newest, held := c.newest()
	p := fewParams{graph: refOf(c.now()), arcs: c.few.arcs, bins: c.few.bins, binned: c.few.binned, ok: c.ok, covered: uint64(c.few.covered), newest: newest}
	if held {
		p.held = 1
	}
	return device.Launch(c.s, c.kernels.few, device.Dim{X: int(c.few.bins.number)}, gpu.Block, &p)
}

// begin clears the words that kernels add to.
func (c *gpuChange) begin() error {
	clean := c.clean
	c.clean = false
	if clean {
		return nil
	}
	return c.s.Fill(c.headAt, 0, smallBytes/4)
}

// writeBins submits writing the rows, if memory suffices for them, and with tell, copying the
// results to the host.
func (c *gpuChange) writeBins(tell bool) error {
	if err := c.sendPiles(); err != nil {
		return err
	}
	m, control := c.memory(), c.headAt
	place := placeFewParams{
		control: control, binned: c.few.binned, piles: c.word(pilesAt), grants: c.word(grantsAt), granted: c.word(grantedAt), list: c.few.list,
		covered: uint64(c.few.covered), units: uint64(c.few.before.units), room: uint64(min(m.pool.buf.Size/c.unit(), mostUnits)), vertices: uint32(c.few.vertices),
		records: uint32(min(m.records.buf.Size/recordBytes, 8*m.alive.buf.Size)), bins: c.few.bins.number,
	}
	write := writeFewParams{
		graph: refOf(c.now()), arcs: c.few.arcs, bins: c.few.bins, binned: c.few.binned, granted: place.granted, grants: place.grants, piles: place.piles, list: place.list,
		weights: c.weights, present: c.word(presentAt), zero: control, zeros: headBytes / 4, epoch: c.epoch,
	}
	if c.opts.Directed {
		write.directed = 1
	}
	if n := len(c.ghosts); !tell && n > 0 {
		place.ghosts, write.ghosts = uint32(c.ghosts[n-1].n), c.ghosts[n-1].buf.Ptr
	}
	// One block per sum, and more for the list.
	sums := (int(c.few.bins.number) + binsSummed - 1) / binsSummed
	rows := c.n
	if c.swept != nil {
		rows = c.few.covered
	}
	err := device.Launch(c.s, c.kernels.placeFew, device.Dim{X: max(sums, gpu.Resident(c.Dev, rows/listed, 4).X)}, gpu.Block, &place)
	if err == nil && tell {
		if err = c.s.CopyOutAsync(c.pinned[:headBytes], control); err == nil {
			err = c.s.Record(c.heard)
		}
	}
	if err == nil {
		err = c.launchRows(&write)
	}
	c.clean = err == nil && !tell
	return err
}

// launchRows submits the launches that write rows.
func (c *gpuChange) launchRows(p *writeFewParams) error {
	bins := device.Dim{X: int(p.bins.number)}
	if w := c.swept; w != nil {
		p.doomed, p.width, p.vertices = w.doomed, uint32(w.width), uint32(w.few.covered)
		return device.Launch(c.s, c.kernels.sweepWrite, bins, gpu.Block, p)
	}
	err := device.Launch(c.s, c.kernels.writeFew, bins, gpu.Block, p)
	if err == nil && c.few.before.large > 0 {
		err = gpu.Twice(func() error {
			return device.Launch(c.s, c.kernels.writeChunks, gpu.Wave(c.Dev, int(c.few.binned.room)*gpu.BlockThreads), gpu.Block, p)
		})
	}
	return err
}

// sendPiles copies piles to the device unless they are current. The device may not yet have read
// the piles of the change before, if that made stacks after its results arrived. So the copy does
// not use page-locked memory, which would require a wait.
func (c *gpuChange) sendPiles() error {
	if c.piled {
		return nil
	}
	var piles [classes]pile
	for class := range piles {
		b := c.gpuEngine.stacks[class]
		piles[class] = pile{at: b.Ptr, top: uint32(c.few.before.free[class]), size: uint32(b.Size / 4)}
	}
	err := c.s.CopyIn(c.word(pilesAt), unsafe.Slice((*byte)(unsafe.Pointer(&piles)), pileBytes))
	c.piled = err == nil
	return err
}

// granted counts the blocks that the device has granted.
func (c *gpuChange) granted() {
	need, released := c.needs()
	c.vertices = max(c.gpuEngine.vertices, int(c.told.end))
	_, units := c.take(&need)
	c.count(&need, &released, units)
	c.clean = true
}

// addUp converts the number of segments per group to the start of each group.
func (c *gpuChange) addUp() {
	before := uint32(0)
	for i, n := range c.firsts {
		c.firsts[i], before = before, before+n
	}
}
