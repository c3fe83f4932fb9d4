package linear

import (
	"structs"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/hash"
)

// Memory, the same on every device (twin: layout.cuh):
//
//	line 0 … line n-1    the table
//	line n               keys that look like marks, under other names
//	line n+1             counters
//
// A line is what a GPU fetches at most for one address and two cache lines of
// a CPU that are fetched in pairs. A sector is what a GPU fetches at least. A
// slot holds a key and its value in one word, so that one compare-and-swap
// publishes both: 8 bytes for 32-bit keys with 32-bit values, 16 bytes for
// pairs with a 64-bit part, and just the key in a set.
const (
	lineBytes   = 128
	sectorBytes = 32
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

// The stored key types and the stored value types. A set stores no value.
type (
	storedKey interface{ uint32 | uint64 }
	storedVal interface {
		uint32 | uint64 | struct{}
	}
)

// slot is one entry. The value comes first: a zero-sized last field would be
// padded, and the kernels want the key in the upper half of the word.
type slot[K storedKey, V storedVal] struct {
	_   structs.HostLayout
	val V
	key K
}

var (
	_ [8]byte  = [unsafe.Sizeof(slot[uint32, uint32]{})]byte{}
	_ [16]byte = [unsafe.Sizeof(slot[uint64, uint64]{})]byte{}
	_ [4]byte  = [unsafe.Sizeof(slot[uint32, struct{}]{})]byte{}
	_ [8]byte  = [unsafe.Sizeof(slot[uint64, struct{}]{})]byte{}
)

// Marks: three keys that are never stored. They count down from the largest,
// so "is a mark" is one comparison.
const (
	markEmpty   = 0 // ^K(0): never used since the last rehash
	markDead    = 1 // deleted; the value field remembers the key
	markPending = 2 // being written by a GPU without 128-bit compare-and-swap
	marks       = 3
)

func mark[K storedKey](m K) K { return ^m }

// isMark tells whether a key looks like a mark. Such keys are stored like any
// other, under the name ^key (0, 1 or 2), in the extra line that holds nothing
// else: every key is legal, and ordinary keys pay one comparison for it.
func isMark[K storedKey](key K) bool { return key >= mark[K](markPending) }

// counters lie in the last line.
type counters struct {
	_    structs.HostLayout
	live uint64 // keys in the table
	used uint64 // slots that are not empty
}

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
func home[K storedKey](g geometry, key K) uint32 {
	if isMark(key) {
		return g.lines * lineSectors
	}
	if unsafe.Sizeof(key) == 4 {
		return hash.Reduce32(hash.Uint32(uint32(key), g.seed), g.lines*lineSectors)
	}
	return uint32(hash.Reduce64(hash.Uint64(uint64(key), g.seed), uint64(g.lines)*lineSectors))
}

// stored is the name under which a key is stored.
func stored[K storedKey](key K) K {
	if isMark(key) {
		return ^key
	}
	return key
}

// generation is the memory of a table between two rehashes. Iterations that
// began before a rehash go on reading the old one.
type generation struct {
	geometry
	buf  device.Buffer
	refs int // guarded by the table's lock

	order core.Spread // in which it is read
}
