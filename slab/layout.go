package slab

import (
	"errors"
	"structs"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hash"
)

// The memory of a table is that of core.Lines, the same on every device (twin: layout.cuh). Each
// line is the base slab of a bucket. Further slabs of a bucket are units of an [alloc.Pool]. The
// slots of a slab come first, its link last.
//
//	32-bit keys and values   15 slots of 8 bytes, link       the paper's layout
//	a 64-bit key or value     7 slots of 16 bytes, 8 bytes unused, link
//	32-bit keys              30 slots of 4 bytes, link       the paper's key-only layout
//	64-bit keys              15 slots of 8 bytes, link
//
// An empty slab is all ones: every slot is empty and no slab follows. Free units are all ones, too.
// So a kernel that takes one has nothing to write before it links it, and nothing to order.
const (
	slabBytes = core.LineBytes
	linkAt    = slabBytes - 8

	// maxBuckets is the maximum number of buckets: 128 GiB of base slabs. It keeps bucket numbers
	// within 32 bits, with space for the extra slabs.
	maxBuckets = 1<<30 - 2

	// noUnit is the address that stands for no slab.
	noUnit = alloc.NoUnit
)

// link is the end of a slab.
type link struct {
	_ structs.HostLayout
	// tail, in a base slab, is a hint: the address of some chained slab, once near the end of the
	// chain. An insertion without a search may begin there. All slabs before it are full. noUnit
	// means to begin with the base slab. In a chained slab, a CPU stores its number in the chain.
	tail uint32
	// next is the address of the following slab, or noUnit.
	next uint32
}

var _ [8]byte = [unsafe.Sizeof(link{})]byte{}

// slotsIn returns the number of slots of a slab: the paper's M.
func slotsIn(slotBytes int) int { return linkAt / slotBytes }

// lastSentinel is the last of the sentinels, and the only one that other structures do not have. It
// means "not a slot" and replaces the link where a kernel reads a whole slab.
const lastSentinel = cpu.Pending + 1

// isSentinel reports whether a key is stored as ^key (0 to 3), in the extra
// bucket.
func isSentinel[K cpu.Key](key K) bool { return cpu.IsSentinel(key, lastSentinel) }

// geometry is the part of a table's description that all devices share.
type geometry struct {
	seed    uint64
	buckets uint32
}

// bytes returns the size of the base slabs' memory.
func (g geometry) bytes() int { return core.LinesBytes(g.buckets) }

// bucketOf returns the bucket of a key.
func bucketOf[K cpu.Key](g geometry, key K) uint32 {
	return hash.Home(key, ^K(lastSentinel), g.seed, g.buckets)
}

// generation is the memory of a table between two rehashes. Its lines are the base slabs.
type generation struct {
	geometry
	core.Lines
	pool  *alloc.Pool
	units *alloc.Owner // owner of all units of the pool
	dict  *dictionary  // of a graph
	long  atomic.Bool  // on a CPU: some chain has been as long as longChain
}

// MemoryBytes returns the size of base slabs, pool and dictionary.
func (g *generation) MemoryBytes() int {
	n := g.Lines.MemoryBytes() + g.pool.Stats().Bytes
	if g.dict != nil {
		n += g.dict.bytes()
	}
	return n
}

// Free implements core.Parts.
func (g *generation) Free() (err error) {
	if g.pool != nil {
		err = g.pool.Close()
	}
	if g.dict != nil {
		err = errors.Join(err, g.dict.free())
	}
	return errors.Join(err, g.Lines.Free())
}
