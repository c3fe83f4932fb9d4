package slab

import (
	"structs"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/hash"
)

// Memory, the same on every device (twin: layout.cuh):
//
//	slab 0 … slab n-1    the base slabs, one per bucket
//	slab n               the base slab of keys that look like marks
//	slab n+1             counters
//
// Further slabs of a bucket are units of an [Alloc]. A slab is 128 bytes: what
// a GPU fetches at most for one address. Its slots come first, its link last.
//
//	32-bit keys and values   15 slots of 8 bytes, link       the paper's layout
//	a 64-bit key or value     7 slots of 16 bytes, 8 bytes unused, link
//	32-bit keys              30 slots of 4 bytes, link       the paper's key-only layout
//	64-bit keys              15 slots of 8 bytes, link
//
// An empty slab is all ones: every slot is empty and no slab follows. Free
// units are all ones, too, so a kernel that takes one has nothing to write
// before it links it, and nothing to order.
const (
	slabBytes = 128
	linkAt    = slabBytes - 8

	// extraSlabs are those behind the buckets.
	extraSlabs = 2

	// maxBuckets keeps the index of a bucket within 32 bits with room for the
	// extra slabs: 128 GiB of base slabs.
	maxBuckets = 1<<30 - extraSlabs

	// noUnit is the address that stands for no slab.
	noUnit = ^uint32(0)
)

// link is the end of a slab.
type link struct {
	_ structs.HostLayout
	// tail, in a base slab, is some slab of the bucket behind the base slab,
	// once near its end: where an insertion that looks for no key may begin.
	// All slabs before it are full. noUnit: begin with the base slab.
	tail uint32
	// next is the slab behind this one, or noUnit.
	next uint32
}

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
	_ [8]byte  = [unsafe.Sizeof(link{})]byte{}
	_ [8]byte  = [unsafe.Sizeof(slot[uint32, uint32]{})]byte{}
	_ [16]byte = [unsafe.Sizeof(slot[uint64, uint64]{})]byte{}
	_ [4]byte  = [unsafe.Sizeof(slot[uint32, struct{}]{})]byte{}
	_ [8]byte  = [unsafe.Sizeof(slot[uint64, struct{}]{})]byte{}
)

// slotsIn is the number of slots of a slab: the paper's M.
func slotsIn(slotBytes int) int { return linkAt / slotBytes }

// Marks: four keys that are never stored. They count down from the largest,
// so "is a mark" is one comparison.
const (
	markEmpty   = 0 // ^K(0): not used since the last flush
	markDead    = 1 // deleted; the value field remembers the key
	markPending = 2 // being written by a GPU without 128-bit compare-and-swap
	markNone    = 3 // not a slot: stands in for the link where a kernel reads a whole slab
	marks       = 4
)

func mark[K storedKey](m K) K { return ^m }

// isMark tells whether a key looks like a mark. Such keys are stored like any
// other, under the name ^key (0 to 3), in the extra bucket that holds nothing
// else: every key is legal, and ordinary keys pay one comparison for it.
func isMark[K storedKey](key K) bool { return key >= mark[K](markNone) }

// stored is the name under which a key is stored.
func stored[K storedKey](key K) K {
	if isMark(key) {
		return ^key
	}
	return key
}

// counters lie in the last of the extra slabs.
type counters struct {
	_    structs.HostLayout
	live uint64 // pairs
	used uint64 // slots that are not empty
}

// geometry is the part of a table's description that all devices share.
type geometry struct {
	seed    uint64
	buckets uint32
}

// bytes is the size of the base slabs' memory.
func (g geometry) bytes() int { return (int(g.buckets) + extraSlabs) * slabBytes }

// bucketOf is the bucket of a key.
func bucketOf[K storedKey](g geometry, key K) uint32 {
	if isMark(key) {
		return g.buckets
	}
	if unsafe.Sizeof(key) == 4 {
		return hash.Reduce32(hash.Uint32(uint32(key), g.seed), g.buckets)
	}
	return uint32(hash.Reduce64(hash.Uint64(uint64(key), g.seed), uint64(g.buckets)))
}

// generation is the memory of a table between two rehashes. Iterations that
// began before a rehash go on reading the old one.
type generation struct {
	geometry
	base device.Buffer
	pool *Alloc
	refs int // guarded by the table's lock

	order core.Spread // in which it is read
}
