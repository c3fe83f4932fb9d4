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

	// maxPath bounds every search, in lines. Linear probing at load 0.97 needs
	// a few hundred slots at most (the article saw 6474); at 64 Ki slots of 8
	// bytes something is wrong, and the operation reports that there is no
	// room.
	maxPath = 4096
)

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
