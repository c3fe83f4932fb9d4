package alloc

import (
	"structs"

	"github.com/weftgo/weft/device"
)

// A super block is a block of device memory (twin: alloc.cuh):
//
//	bitmaps   of each memory block 1024 bits, 1 for a unit that is taken
//	units     of each memory block 1024
//
// An address is 32 bits: super block (8), memory block (14), unit (10).
const (
	blockUnits = 1 << 10  // units of a memory block, the paper's N_U
	maxBlocks  = 1 << 14  // memory blocks of a super block, N_M
	maxSupers  = 1<<8 - 1 // super blocks, N_S: the last addresses are unused

	superShift = 24
	blockShift = 10
	unitMask   = 1<<superShift - 1 // number of the unit in its super block

	bitmapWords = blockUnits / 32 // one for each lane of a warp
	bitmapBytes = 4 * bitmapWords

	// hashedTries is the number of random memory blocks that a worker tries first. When nine of ten
	// are full, one worker of thirty finds nothing.
	hashedTries = 32

	tableBytes = 8 * maxSupers // of the addresses of the super blocks
)

// NoUnit is the address of no unit.
const NoUnit = ^uint32(0)

// The sizes of a [Pool].
const (
	BlockUnits = blockUnits // units of a memory block
	MaxBlocks  = maxBlocks  // max memory blocks of a super block
	MaxSupers  = maxSupers  // max super blocks of a pool
)

// Ref is an [Owner] as kernels see it, passed to them by value (twin: Allocator in
// kernels/include/weft/alloc.cuh). It is valid until the owner or its pool is closed. Growth only
// adds memory, so kernels with an older Ref continue. They take units of the memory blocks that the
// owner had then, and can read and release those of later ones.
type Ref struct {
	_      structs.HostLayout
	Supers device.Ptr // table of the addresses of the super blocks, on the device, or 0
	Light  device.Ptr // address of the only allocation of a light pool, or 0
	List   device.Ptr // first units of the owner's memory blocks; 0: the pool's first, in order
	Count  uint32     // memory blocks to take units from
	Tries  uint32     // memory blocks that a warp tries before it gives up
	Blocks uint32     // memory blocks in a super block
	Unit   uint32     // bytes in a unit
	// Known is the address after the units with first content that precedes the launch; see doc.go.
	// Old is the address after those for which this holds in all launches.
	Known uint32
	Old   uint32
}

// address returns the address of the first unit of the pool's memory block number i.
func (r *Ref) address(i uint32) uint32 { return i/r.Blocks<<superShift | i%r.Blocks<<blockShift }

// view is an owner as engines see it.
type view struct {
	Ref
	blocks []uint32 // the blocks of Ref.List, also if that is 0
}
