package linear

import (
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hash"
)

// Memory, the same on every device (twin: layout.cuh):
//
//	line 0 … line n-1    the table
//	line n               keys that look like sentinels, as their complement
//	line n+1             counters
//
// A line is what a GPU fetches at most for one address and two cache lines of
// a CPU that are fetched in pairs. A sector is what a GPU fetches at least. A
// slot holds a key and its value in one word, so that one compare-and-swap
// publishes both: 8 bytes for 32-bit keys with 32-bit values, 16 bytes for
// pairs with a 64-bit part, and just the key in a set.
const (
	lineBytes   = 128
	sectorShift = 5
	sectorBytes = 1 << sectorShift
	lineSectors = lineBytes / sectorBytes

	// extraLines are the lines behind the table.
	extraLines = 2

	// maxLines keeps the index of a sector below 1<<32, in the kernels' 32-bit
	// arithmetic: 128 GiB.
	maxLines = 1<<30 - extraLines

	// maxPath bounds every search, in lines. Linear probing at load .97 needs
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
func (g geometry) bytes() int { return (int(g.lines) + extraLines) * lineBytes }

// segmentLines is the number of lines that a warp rehashes in place at a time,
// and more if the last of them is no border (twin: kSegment).
const segmentLines = 16

// segments is the number of segments.
func (g geometry) segments() int { return (int(g.lines) + segmentLines - 1) / segmentLines }

// path is the longest search, in lines.
func (g geometry) path() uint32 { return min(g.lines, maxPath) }

// home is the sector where the search for a key begins.
func home[K cpu.Key](g geometry, key K) uint32 {
	if isSentinel(key) {
		return g.lines * lineSectors
	}
	if unsafe.Sizeof(key) == 4 {
		return hash.Reduce32(hash.Uint32(uint32(key), g.seed), g.lines*lineSectors)
	}
	return uint32(hash.Reduce64(hash.Uint64(uint64(key), g.seed), uint64(g.lines)*lineSectors))
}

// generation is the memory of a table between two rehashes.
type generation struct {
	geometry
	dev   device.Device
	buf   device.Buffer
	order core.Spread // in which it is read
}

// allocate takes memory for a table, whose content is undefined.
func allocate(dev device.Device, g geometry) (*generation, error) {
	buf, err := dev.Alloc(g.bytes())
	if err != nil {
		return nil, fmt.Errorf("table of %d bytes: %w", g.bytes(), err)
	}
	return &generation{g, dev, buf, core.SpreadOver(g.lines)}, nil
}

// Free is for [core.Parts].
func (g *generation) Free() error { return g.dev.Free(g.buf) }

// countersAt is where the counters lie: in the last line.
func (g *generation) countersAt() int { return (int(g.lines) + extraLines - 1) * lineBytes }

// Counters is for [cpu.Memory].
func (g *generation) Counters() *cpu.Counters {
	return (*cpu.Counters)(unsafe.Pointer(&g.buf.Host[g.countersAt()]))
}

// extent is the number of lines with the extra one, and of slots in each.
func (g *generation) extent(slotBytes int) (lines uint32, slots int) {
	return g.lines + 1, lineBytes / slotBytes
}
