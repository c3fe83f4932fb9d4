package linear

import (
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hash"
)

// Memory is that of [core.Lines], the same on every device (twin: layout.cuh).
// A sector is what a GPU fetches at least. A slot holds a key and its value in
// one word, so that one compare-and-swap publishes both: 8 bytes for 32-bit keys
// with 32-bit values, 16 bytes for pairs with a 64-bit part, and just the key in
// a set.
const (
	lineBytes   = core.LineBytes
	sectorShift = 5
	sectorBytes = 1 << sectorShift
	lineSectors = lineBytes / sectorBytes

	// maxLines keeps the index of a sector below 1<<32, in the kernels' 32-bit
	// arithmetic: 128 GiB.
	maxLines = 1<<30 - 2

	// maxPath bounds every search, in lines. In a table as full as maxKeys allows, fewer than one
	// path in 10¹⁴ is longer: a path goes beyond n slots at a load a with a chance of
	// exp(-n(a-1-ln a)). An operation whose path is that long reports that there is no room.
	maxPath = 4096

	// smallLines is the size of tables that may be full to the last slot, since a search of all of
	// it is short.
	smallLines = 32
)

// keepFree is the share of lines beyond a small table that has no keys: one in 16 with slots of
// 16 bytes, one in 32 with others, of which a path of maxPath lines has more.
func keepFree(perLine int) int { return min(2*perLine, 32) }

// maxKeys is how many keys a table takes with so many slots in each line.
func maxKeys(lines uint32, perLine int) int { return leave(lines, perLine, keepFree(perLine)) }

// maxUsed is how many slots of keys and deleted ones a table of fixed size may have: half of
// what maxKeys leaves free is for deleted ones, so that many come before they have to go.
func maxUsed(lines uint32, perLine int) int { return leave(lines, perLine, 2*keepFree(perLine)) }

// leave is the number of slots but for a share of those beyond a small table.
func leave(lines uint32, perLine, share int) int {
	all := int(lines) * perLine
	if lines <= smallLines {
		return all
	}
	return all - (int(lines-smallLines)*perLine+share-1)/share
}

// Sentinels, beside those of all structures: none. lastSentinel is the last.
const lastSentinel = cpu.Pending

// isSentinel reports whether a key is stored as ^key (0, 1 or 2), in the extra
// line.
func isSentinel[K cpu.Key](key K) bool { return cpu.IsSentinel(key, lastSentinel) }

// geometry is the part of a table's description that all devices share.
type geometry struct {
	seed  uint64
	lines uint32
}

// bytes is the size of the table's memory.
func (g geometry) bytes() int { return core.LinesBytes(g.lines) }

// segmentLines is the number of lines that a warp rehashes in place at a time,
// and more if the last of them is no border (twin: kSegment).
const segmentLines = 16

// segments is the number of segments.
func (g geometry) segments() int { return (int(g.lines) + segmentLines - 1) / segmentLines }

// path is the longest search, in lines.
func (g geometry) path() uint32 { return min(g.lines, maxPath) }

// home is the sector where the search for a key begins.
func home[K cpu.Key](g geometry, key K) uint32 {
	return hash.Home(key, ^K(lastSentinel), g.seed, g.lines*lineSectors)
}

// generation is the memory of a table between two rehashes.
type generation struct {
	geometry
	core.Lines
	long atomic.Bool // a path is or was longer than longSearch: noted by a CPU
}

// allocate takes memory for a table, whose content is undefined.
func allocate(dev device.Device, g geometry) (*generation, error) {
	lines, err := core.NewLines(dev, g.lines)
	if err != nil {
		return nil, err
	}
	return &generation{geometry: g, Lines: lines}, nil
}
