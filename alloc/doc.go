// Package alloc is SlabAlloc: it allocates units of device memory, all of one size, one at a time
// to threads of kernels, to cores, or to batches. Package slab takes its slabs from it. It also
// serves structures of users, in Go and, through weft/alloc.cuh, in CUDA C++.
//
// It is the allocator of Ashkiani, Farach-Colton and Owens, "A Dynamic Hash Table for the GPU"
// (IPDPS 2018), section V, with its light variant, and without its limits. It grows while kernels
// use it. Several structures share one [Pool]. Each frees everything that it has at once, and a
// caller that finds no unit gets an error.
//
// # Layout
//
// A unit has 128 or 256 bytes and an address of 32 bits: super block (8), memory block (14), unit
// (10). A super block is a block of device memory with up to 16384 memory blocks. A memory block
// has 1024 units and a bitmap of 32 words, one for each lane of a warp. A table in device memory
// holds the addresses of the super blocks. In a light pool they are one block, and addresses are
// found without the table.
//
// A worker, which is a warp of a GPU or a core, keeps the bitmap of one memory block, its resident,
// and takes units by setting bits in it. One atomic operation serves as many lanes as a word has
// free units. When the resident is full the worker moves to another memory block by a hash of its
// number, so workers rarely meet. After 32 of them it gives up, or tries all in order, as its [Ref]
// says.
//
// Units keep their content. A unit that its owner has never allocated is all ones, and a released
// one keeps what is in it. A structure in which all ones means empty, and which resets its units
// before it releases them, can link a new unit without writing to it first.
//
// # Owners
//
// A [Pool] has memory, an [Owner] takes units. A memory block belongs to one owner at a time. The
// host assigns it when an owner grows, and kernels only take units of their owner's blocks. So
//
//   - closing an owner returns its memory blocks in a time that does not depend on the structure,
//     and nothing is walked;
//   - taking a unit costs as much as in a pool with one owner: no tag is read, and none is set by
//     compare-and-swap;
//   - owners do not meet in a bitmap, whatever their kernels do at the same time, and the units of
//     one owner are close together.
//
// The price is that an owner has at least 1024 units: 128 KiB at 128 bytes a unit. Structures that
// live and die together therefore share an owner, such as the thousand small tables of a graph.
// Each releases single units itself, and all go with the graph. One alternative was a tag beside
// each unit. It costs a memory access per unit, and a pass over all units to free those of one
// owner. Another was tags of memory blocks that kernels set. Then a small structure that a thousand
// warps use claims a thousand memory blocks.
//
// An owner that grows takes at least as many memory blocks as it has, if the pool has them. A pool
// that grows adds at least a quarter of its super blocks. So each unit costs a constant.
//
// # Growth alongside kernels
//
// Growth of an owner or its pool waits for no kernel. New memory blocks are filled, and super
// blocks entered in the table, before a Ref contains them. What an older Ref names stays in place
// until the owner is closed. Kernels launched with an older Ref take units of the memory blocks
// that it counts.
//
// They may also meet younger units, if others store the addresses of such units where they look. A
// lookup in a list to which later launches append is an example. No launch order makes the first
// content of these units, or the entry of their super block, precede such a read. So a thread calls
// Allocator::publish before it publishes the address of a unit, and Allocator::meet after it has
// read an address and before it follows it. These two fences make the publication a release and the
// read an acquire. The host's work precedes the publisher's launch, so it also precedes what the
// reader does next.
//
// Both compare first. Units at addresses below Ref.Known existed before the launch, as long as the
// owner has the first memory blocks of the pool, in order. So the only owner of a pool pays a
// comparison for each unit met, and one with blocks between those of others pays a fence for each.
// Units below Ref.Old existed when the first Ref was made, and publishing them costs a comparison.
// So reserve the units that are certainly needed before the first call of Ref.
//
// # Concurrency
//
// All methods may be called from many goroutines. Batches of a pool from host memory run one after
// another, each on the whole device. Batches of one owner on streams of the caller run in the order
// of the calls. Those of different owners, and kernels of the caller, have no order among them and
// need none. Clear and Close require that everything that uses the owner's units has completed.
package alloc
