package linear

import (
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hash"
)

// A table's memory is a [core.Lines], with the same layout on every device. Kernels have these
// constants in layout.cuh. A sector is the smallest unit that a GPU fetches. A slot holds a key and
// its value in one word, so that one compare-and-swap publishes both. It has 8 bytes for 32-bit
// keys with 32-bit values, 16 bytes for pairs with a 64-bit part, and in a set the size of the key.
const (
	lineBytes   = core.LineBytes
	sectorShift = 5
	sectorBytes = 1 << sectorShift
	lineSectors = lineBytes / sectorBytes

	// maxLines is the maximum number of lines, 128 GiB. It keeps sector indexes below 1<<32,
	// because kernels compute them with 32 bits.
	maxLines = 1<<30 - 2

	// maxPath is the maximum length of a path in lines. In a table as full as maxKeys permits,
	// fewer than one path in 10¹⁴ would be longer: at load a, a path exceeds n slots with
	// probability exp(-n(a-1-ln a)). If an operation finds no slot on a path of that length, it
	// reports a full table.
	maxPath = 4096

	// smallLines is the maximum size of a table that may be full to the last slot. A search of such
	// a table is short.
	smallLines = 32
)

// freeDivisor returns n if one slot in n must stay free beyond the first smallLines lines. n is 16
// for slots of 16 bytes and 32 for smaller ones, because maxPath lines hold more of these.
func freeDivisor(perLine int) int { return min(2*perLine, 32) }

// maxKeys returns the maximum number of keys in a table with perLine slots per line.
func maxKeys(lines uint32, perLine int) int { return usableSlots(lines, perLine, freeDivisor(perLine)) }

// maxUsed returns the maximum number of live and dead slots in a table of fixed size. Of the slots
// that maxKeys leaves free, half may be dead, so that many dead slots accumulate before a rehash
// must drop them.
func maxUsed(lines uint32, perLine int) int {
	return usableSlots(lines, perLine, 2*freeDivisor(perLine))
}

// usableSlots returns the number of slots that may be used. Beyond the first smallLines lines, one
// slot in divisor must stay free.
func usableSlots(lines uint32, perLine, divisor int) int {
	n := int(lines) * perLine
	if lines <= smallLines {
		return n
	}
	return n - (int(lines-smallLines)*perLine+divisor-1)/divisor
}

// lastSentinel is the last sentinel. This structure defines no sentinels of its own.
const lastSentinel = cpu.Pending

// isSentinel reports whether a key looks like a sentinel. Such a key is stored as ^key (0, 1 or 2)
// in the extra line.
func isSentinel[K cpu.Key](key K) bool { return cpu.IsSentinel(key, lastSentinel) }

// geometry is the part of a table's description that is the same on all devices.
type geometry struct {
	seed  uint64
	lines uint32
}

func (g geometry) bytes() int { return core.LinesBytes(g.lines) }

// segmentLines is the number of lines in a segment (kSegment in layout.cuh). In a rehash in place,
// a warp rehashes one segment at a time and continues to the first border at or after the segment's
// end. A border is a line with an empty slot.
const segmentLines = 16

func (g geometry) segments() int { return (int(g.lines) + segmentLines - 1) / segmentLines }

func (g geometry) maxPathLines() uint32 { return min(g.lines, maxPath) }

// home returns the index of the sector in which the path of a key begins.
func home[K cpu.Key](g geometry, key K) uint32 {
	return hash.Home(key, ^K(lastSentinel), g.seed, g.lines*lineSectors)
}

type generation struct {
	geometry
	core.Lines
	long atomic.Bool // some path is or was longer than longSearch; CPU only
}

func allocate(dev device.Device, g geometry) (*generation, error) {
	lines, err := core.NewLines(dev, g.lines)
	if err != nil {
		return nil, err
	}
	return &generation{geometry: g, Lines: lines}, nil
}
