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

// The memory of a table consists of core.Lines, with the same layout on every device (layout.cuh in
// CUDA). Each line is the base slab of a bucket. Further slabs of a bucket are units of an
// [alloc.Pool]. In a slab the slots come first, the link last.
//
//	32-bit keys and values   15 slots of 8 bytes, link       the paper's layout
//	a 64-bit key or value     7 slots of 16 bytes, 8 bytes unused, link
//	32-bit keys              30 slots of 4 bytes, link       the paper's key-only layout
//	64-bit keys              15 slots of 8 bytes, link
//
// All bits of an empty slab are ones: every slot is empty and no slab follows. Free units are all
// ones, too. So a kernel that takes a unit need not write it before linking it.
const (
	slabBytes = core.LineBytes
	linkAt    = slabBytes - 8

	// maxBuckets is the maximum number of buckets: 128 GiB of base slabs. Bucket numbers, including
	// the extra slabs, then fit into 32 bits.
	maxBuckets = 1<<30 - 2

	// noUnit is the address that means "no slab".
	noUnit = alloc.NoUnit
)

// link is the last 8 bytes of a slab.
type link struct {
	_ structs.HostLayout
	// tail of a base slab is the address of a chained slab that was near the end of the chain, or
	// noUnit. All slabs before that slab are full, so an insertion without a search may begin
	// there, or at the base slab if tail is noUnit. In a chained slab, a CPU stores the slab's
	// number in the chain here.
	tail uint32
	// next is the address of the following slab, or noUnit.
	next uint32
}

var _ [8]byte = [unsafe.Sizeof(link{})]byte{}

// slotsIn returns the number of slots in a slab, the paper's M.
func slotsIn(slotBytes int) int { return linkAt / slotBytes }

// lastSentinel is the last sentinel. Only this package has it. It means "not a slot" and replaces
// the link where a kernel reads a whole slab.
const lastSentinel = cpu.Pending + 1

// isSentinel reports whether a key is a sentinel, which is stored as ^key (0 to 3) in the extra
// bucket.
func isSentinel[K cpu.Key](key K) bool { return cpu.IsSentinel(key, lastSentinel) }

// geometry holds the parameters of a table that determine the bucket of each key.
type geometry struct {
	seed    uint64
	buckets uint32
}

// bytes returns the size of the base slabs.
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
	units *alloc.Owner // owns all units of the pool
	dict  *dictionary  // nil unless the table is a graph
	long  atomic.Bool  // on a CPU: whether a chain has reached longChain
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
