package linear

import (
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hash"
)

// The memory is that of [core.Lines], the same on every device (twin: layout.cuh). A sector is the
// least that a GPU fetches. A slot holds a key and its value in one word, so that one
// compare-and-swap publishes both: 8 bytes for 32-bit keys with 32-bit values, 16 bytes for pairs
// with a 64-bit part, and just the key in a set.
const (
	lineBytes   = core.LineBytes
	sectorShift = 5
	sectorBytes = 1 << sectorShift
	lineSectors = lineBytes / sectorBytes

	// maxLines keeps the index of a sector below 1<<32 in the kernels' 32-bit arithmetic: 128 GiB.
	maxLines = 1<<30 - 2

	// maxPath bounds every search, in lines. In a table as full as maxKeys allows, fewer than one
	// path in 10¹⁴ is longer: at a load a, a path exceeds n slots with probability exp(-n(a-1-ln
	// a)). An operation with a path that long reports that the table is full.
	maxPath = 4096

	// smallLines is the size up to which a table may be full to the last slot, since a search of
	// all of it is short.
	smallLines = 32
)

// freeDivisor returns n such that one slot in n stays free beyond a small table: 16 for slots of 16
// bytes, 32 for smaller ones. A path of maxPath lines has more of the smaller ones.
func freeDivisor(perLine int) int { return min(2*perLine, 32) }

// maxKeys returns the capacity of a table with perLine slots in each line.
func maxKeys(lines uint32, perLine int) int { return usableSlots(lines, perLine, freeDivisor(perLine)) }

// maxUsed returns the number of live and dead slots that a table of fixed size may have. Half of
// what maxKeys leaves free is for dead slots, so that many accumulate before a rehash drops them.
func maxUsed(lines uint32, perLine int) int {
	return usableSlots(lines, perLine, 2*freeDivisor(perLine))
}

// usableSlots returns the number of slots less one in divisor of those beyond a small table.
func usableSlots(lines uint32, perLine, divisor int) int {
	n := int(lines) * perLine
	if lines <= smallLines {
		return n
	}
	return n - (int(lines-smallLines)*perLine+divisor-1)/divisor
}

// lastSentinel is the last sentinel. The table has none beyond those of all structures.
const lastSentinel = cpu.Pending

// isSentinel reports whether a key is stored as ^key (0, 1 or 2), in the extra line.
func isSentinel[K cpu.Key](key K) bool { return cpu.IsSentinel(key, lastSentinel) }

// geometry is the part of a table's description that all devices share.
type geometry struct {
	seed  uint64
	lines uint32
}

// bytes returns the size of the table's memory.
func (g geometry) bytes() int { return core.LinesBytes(g.lines) }

// segmentLines is the number of lines that a warp rehashes in place at a time. It goes on to the
// next border if the last of them is none (twin: kSegment).
const segmentLines = 16

// segments returns the number of segments.
func (g geometry) segments() int { return (int(g.lines) + segmentLines - 1) / segmentLines }

// maxPathLines returns the length of the longest search, in lines.
func (g geometry) maxPathLines() uint32 { return min(g.lines, maxPath) }

// home returns the sector where the search for a key begins.
func home[K cpu.Key](g geometry, key K) uint32 {
	return hash.Home(key, ^K(lastSentinel), g.seed, g.lines*lineSectors)
}

// generation is the memory of a table between two rehashes.
type generation struct {
	geometry
	core.Lines
	long atomic.Bool // a path is or was longer than longSearch; set by a CPU
}

// allocate allocates a table with undefined contents.
func allocate(dev device.Device, g geometry) (*generation, error) {
	lines, err := core.NewLines(dev, g.lines)
	if err != nil {
		return nil, err
	}
	return &generation{geometry: g, Lines: lines}, nil
}
