// Package alloc is SlabAlloc, an allocator for units of device memory of one size. It allocates
// units one at a time to threads of kernels and to cores, or in batches. Package slab allocates its
// slabs from it. User code can use it from Go and, through weft/alloc.cuh, from CUDA C++.
//
// It is the allocator of Ashkiani, Farach-Colton and Owens, "A Dynamic Hash Table for the GPU"
// (IPDPS 2018), section V. It includes the light variant and lifts the paper's limits. It grows
// while kernels use it. Several structures share one [Pool]. Each structure frees all of its units
// at once, and a caller that finds no unit gets an error.
//
// # Layout
//
// A unit has 128 or 256 bytes and an address of 32 bits: super block (8), memory block (14), unit
// (10). A super block is a block of device memory with up to 16384 memory blocks. A memory block
// has 1024 units and a bitmap of 32 words, one word for each lane of a warp. A table in device
// memory holds the addresses of the super blocks. In a light pool all super blocks are one
// allocation, so kernels compute addresses without the table.
//
// A worker is a warp of a GPU or a core. It keeps a copy of the bitmap of one memory block, its
// resident block, and takes units by setting bits in that block's bitmap. One atomic operation
// serves as many lanes as a word has free units. When the resident block is full, the worker moves
// to another memory block. It chooses the block by a hash of its number, so workers rarely share a
// block. After 32 blocks without a free unit, the worker stops or tries all blocks in order,
// depending on its [Ref].
//
// Units keep their content. A unit that its owner has never allocated is all ones, and a released
// unit keeps its last content. If a structure interprets all ones as empty and resets units before
// it releases them, it can link a new unit without writing to it.
//
// # Owners
//
// A [Pool] has memory, and an [Owner] takes units. A memory block belongs to one owner at a time.
// The host assigns memory blocks when an owner grows, and kernels only take units of their owner's
// blocks. So
//
//   - closing an owner returns its memory blocks without visiting units, in a time that does not
//     depend on the structure;
//   - taking a unit costs as much as in a pool with one owner, since no tag is read or set by
//     compare-and-swap;
//   - owners never share a bitmap, whatever their kernels do at the same time, and the units of one
//     owner are close together.
//
// The price is that an owner has at least 1024 units: 128 KiB at 128 bytes a unit. So structures
// that are created and closed together, such as the thousand small tables of a graph, should share
// an owner. Each structure releases single units itself, and closing the owner frees all of them.
// One alternative was a tag next to each unit. It costs a memory access per unit, and a pass over
// all units to free those of one owner. Another alternative was tags of memory blocks that kernels
// set. Then a small structure that a thousand warps use claims a thousand memory blocks.
//
// An owner that grows takes at least as many memory blocks as it already has, if the pool has them.
// A pool that grows adds at least a quarter of its super blocks. So the cost of growth is constant
// per unit.
//
// # Growth alongside kernels
//
// An owner and its pool grow without waiting for kernels. New memory blocks are filled, and new
// super blocks entered in the table, before a Ref contains them. Memory in an older Ref stays in
// place until the owner is closed. Kernels launched with an older Ref take units of the memory
// blocks that the Ref counts.
//
// These kernels may also read addresses of newer units. An example is a lookup in a list to which
// later launches append. The launch order does not make the initial content of such a unit, or the
// table entry of its super block, visible to the read. So a thread calls Allocator::publish before
// it publishes the address of a unit. It calls Allocator::meet after it has read an address and
// before it reads the unit. These two fences make the publication a release and the read an
// acquire. The host's work precedes the publisher's launch, so it also precedes later accesses of
// the reader.
//
// Both functions first compare addresses and may skip the fence. Units at addresses below Ref.Known
// existed before the launch, if the owner has the first memory blocks of the pool, in order. So the
// only owner of a pool pays a comparison for each unit that it reads, and an owner with scattered
// blocks pays a fence. Units below Ref.Old existed when the first Ref was made, and publishing them
// costs only a comparison. So reserve the units that are certainly needed before the first call of
// Ref.
//
// # Concurrency
//
// All methods may be called from many goroutines. Batches of a pool from host memory run one after
// another, each on the whole device. Batches of one owner on the caller's streams run in the order
// of the calls. Batches of different owners and the caller's kernels run in no particular order and
// need none. Before Clear and Close, all work that uses the owner's units must have completed.
package alloc
