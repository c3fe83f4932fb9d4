package alloc

import (
	"structs"

	"github.com/weftgo/weft/device"
)

// A super block is a block of device memory. alloc.cuh uses the same layout:
//
//	bitmaps   1024 bits per memory block; a bit is 1 if the unit is taken
//	units     1024 per memory block
//
// An address is 32 bits: super block (8), memory block (14), unit (10).
const (
	blockUnits = 1 << 10 // units per memory block, N_U in the paper
	maxBlocks  = 1 << 14 // memory blocks per super block, N_M
	// super blocks, N_S; the last addresses are unused, since NoUnit is one of them
	maxSupers = 1<<8 - 1

	superShift = 24
	blockShift = 10
	unitMask   = 1<<superShift - 1 // bits for the number of a unit in its super block

	bitmapWords = blockUnits / 32 // one for each lane of a warp
	bitmapBytes = 4 * bitmapWords

	// hashedTries is the number of random memory blocks that a worker tries first. If nine of ten
	// memory blocks are full, one worker of thirty finds no unit.
	hashedTries = 32

	tableBytes = 8 * maxSupers // size of the table of super blocks
)

// NoUnit is an address that no unit has.
const NoUnit = ^uint32(0)

// Sizes and limits of a [Pool].
const (
	BlockUnits = blockUnits // units per memory block
	MaxBlocks  = maxBlocks  // maximum number of memory blocks per super block
	MaxSupers  = maxSupers  // maximum number of super blocks per pool
)

// Ref describes an [Owner] to kernels, which receive it by value as the struct Allocator
// (kernels/include/weft/alloc.cuh). It is valid until the owner or its pool is closed. Growth only
// adds memory, so kernels with an older Ref continue. They take units of the memory blocks in their
// Ref, and can read and release units of later blocks.
type Ref struct {
	_      structs.HostLayout
	Supers device.Ptr // address of the table of super blocks on the device, or 0
	Light  device.Ptr // address of a light pool's only allocation, or 0
	// addresses of the first units of the owner's memory blocks; 0 if they are the pool's first
	// blocks, in order
	List   device.Ptr
	Count  uint32 // number of memory blocks to take units from
	Tries  uint32 // maximum number of memory blocks that a warp tries
	Blocks uint32 // memory blocks per super block
	Unit   uint32 // bytes per unit
	// Known and Old are addresses. Units below Known had their initial content before the launch;
	// see doc.go. Units below Old had it before every launch with a Ref.
	Known uint32
	Old   uint32
}

// address returns the address of the first unit in the pool's memory block i.
func (r *Ref) address(i uint32) uint32 { return i/r.Blocks<<superShift | i%r.Blocks<<blockShift }

// view describes an owner to an engine.
type view struct {
	Ref
	// addresses of the first units of all the owner's memory blocks, even if Ref.List is 0
	blocks []uint32
}
