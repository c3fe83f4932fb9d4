package cuckoo

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hash"
)

// The memory of a table has the layout of [core.Lines], the same on every device (see
// kernels/include/weft/cuckoo_table.cuh). A slot has a key and its value in one word, so that one
// compare-and-swap publishes both. It has 8 bytes for 32-bit keys with 32-bit values, 16 bytes for
// pairs with a 64-bit part, and just the key in a set.
//
//	buckets          1 to 16 slots each, contiguous
//	stash            lines of slots, with buckets of one slot only
//	extra line       keys that look like sentinels: slot i has key ^i
//	tally            counters, and the number of running evictions
const (
	lineBytes = core.LineBytes

	// maxSlots keeps slot numbers below 1<<32 for the kernels' 32-bit arithmetic.
	maxSlots = 1<<32 - 1<<8

	// Two functions map a key to its buckets, or four if buckets have one slot.
	twoFunctions, fourFunctions = 2, 4
	maxFunctions                = fourFunctions

	// minStash and maxStash bound the number of lines in a stash. Between them, the stash has one
	// line per stashShare lines of buckets.
	minStash, maxStash, stashShare = 1, 8, 16
)

// absent is the last sentinel, after those that all structures have. Kernels use it for places that
// are not slots of a bucket.
const absent = cpu.Pending + 1

const lastSentinel = absent

// isSentinel reports whether a key has its own slot in the extra line.
func isSentinel[K cpu.Key](key K) bool { return cpu.IsSentinel(key, lastSentinel) }

// geometry is the part of a table's description that does not depend on the device.
type geometry struct {
	seed      uint64
	lines     uint32 // lines of buckets and of the stash
	stash     uint32 // lines of the stash, which are the last ones
	buckets   uint32
	functions uint32 // buckets per key
	shift     uint32 // a bucket has 1<<shift slots
}

// layout determines the geometry of a table of any size.
type layout struct {
	slots     int // slots per bucket
	slotBytes int
}

// lineMultiple returns the number that the number of lines must be a multiple of.
func (l layout) lineMultiple() uint32 { return uint32(max(1, l.slots*l.slotBytes/lineBytes)) }

func (l layout) geometry(s bucket.Size) geometry {
	g := geometry{seed: s.Seed, lines: s.Lines, shift: uint32(bits.TrailingZeros(uint(l.slots)))}
	g.buckets = uint32(uint64(s.Lines) * lineBytes / uint64(l.slots*l.slotBytes))
	g.functions = twoFunctions
	if l.slots == 1 {
		g.functions = fourFunctions
		g.stash = min(max(s.Lines/stashShare, minStash), maxStash)
		g.lines += g.stash
	}
	if g.buckets == 1 {
		g.functions = 1
	}
	return g
}

// bucketLines returns the number of lines before the stash.
func (g geometry) bucketLines() uint32 { return g.lines - g.stash }

// Size returns the size that determines the geometry.
func (g geometry) Size() bucket.Size { return bucket.Size{Lines: g.bucketLines(), Seed: g.seed} }

func (g geometry) bytes() int { return core.LinesBytes(g.lines) }

// Constants of the hash functions, as in cuckoo_table.cuh. The second function hashes the result of
// the first, so the keys of one bucket are spread over all other buckets. The third and the fourth
// function hash the first two buckets. So a key's buckets follow from the first two, and two keys
// that share two buckets are as rare as two that share four.
const (
	secondSeed = 0x9e3779b97f4a7c15
	thirdSeed  = 0x85ebca6b
	fourthSeed = 0xc2b2ae35
	stashSeed  = 0x27d4eb2f
)

// path has the first two buckets of a key, which determine the others. They differ unless the table
// has one bucket.
type path struct{ first, second uint32 }

// pathOf returns the path of a key. The key must not look like a sentinel.
func pathOf[K cpu.Key](g geometry, key K) (p path) {
	nOthers := g.buckets - 1
	if unsafe.Sizeof(key) == 4 {
		h := hash.Uint32(uint32(key), g.seed)
		p.first = hash.Reduce32(h, g.buckets)
		p.second = hash.Reduce32(hash.Uint32(h, g.seed^secondSeed), nOthers)
	} else {
		h := hash.Uint64(uint64(key), g.seed)
		p.first = uint32(hash.Reduce64(h, uint64(g.buckets)))
		p.second = uint32(hash.Reduce64(hash.Uint64(h, g.seed^secondSeed), uint64(nOthers)))
	}
	if p.second >= p.first && nOthers > 0 {
		p.second++
	}
	return p
}

func (p path) bucket(g geometry, i uint32) uint32 {
	switch i {
	case 0:
		return p.first
	case 1:
		return p.second
	case 2:
		return hash.Reduce32(p.mix(thirdSeed), g.buckets)
	}
	return hash.Reduce32(p.mix(fourthSeed), g.buckets)
}

// stashLine returns the line of the stash in which a key may be.
func (p path) stashLine(g geometry) uint32 {
	return g.bucketLines() + hash.Reduce32(p.mix(stashSeed), g.stash)
}

func (p path) mix(seed uint64) uint32 {
	return hash.Uint32(p.first^bits.RotateLeft32(p.second, 16), seed)
}

// generation is the memory of a table between two rehashes.
type generation struct {
	geometry
	bucket.Generation
	long atomic.Bool // searches for a slot may take long; set on a CPU only
}

// allocate allocates a generation. The contents of its memory are undefined.
func allocate(dev device.Device, g geometry) (*generation, error) {
	memory, err := bucket.Allocate(dev, g.lines, g.buckets)
	if err != nil {
		return nil, err
	}
	return &generation{geometry: g, Generation: memory}, nil
}
