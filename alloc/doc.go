// Package alloc is SlabAlloc: units of device memory, all of one size, given out
// one at a time to threads of kernels, to cores, or to batches. It is what
// package slab takes its slabs from, and is there for structures of users, in
// Go and, by weft/alloc.cuh, in CUDA C++.
//
// It is the allocator of Ashkiani, Farach-Colton and Owens, "A Dynamic Hash
// Table for the GPU" (IPDPS 2018), section V, with its light variant, and
// without its limits: it grows while kernels use it, several structures share
// one [Pool], each gives back all that it has at once, and who finds no unit is
// told.
//
// # Layout
//
// A unit has 128 or 256 bytes and an address of 32 bits: super block (8), memory
// block (14), unit (10). A super block is a block of device memory with up to
// 16384 memory blocks, a memory block has 1024 units and a bitmap of 32 words,
// one for each lane of a warp. A table in device memory says where the super
// blocks are; in a light pool they are one block, and addresses are found
// without it.
//
// A worker, a warp of a GPU or a core, keeps the bitmap of one memory block, its
// resident, and takes units by setting bits in it. One atomic operation serves
// as many lanes as a word has free units. When the resident is full the worker
// moves to another memory block by a hash of its number, so workers rarely
// meet; after 32 of them it gives up, or goes through all in order, as its
// [Ref] says.
//
// Units come and go with their content. A unit that its owner has never given
// out is all ones, and one that comes back keeps what is in it. A structure for
// which all ones means empty, and which makes its units so before it gives them
// back, can link a new unit without writing to it first.
//
// # Owners
//
// A [Pool] has memory, an [Owner] takes units. Memory blocks belong to one owner
// at a time, and the host gives them away, when an owner is to grow: kernels
// only ever pick from what their owner has. So
//
//   - closing an owner gives its memory blocks back, in a time that does not
//     depend on what the structure looked like, and nothing is walked;
//   - taking a unit costs what it costs in a pool with one owner: no tag is
//     read, and none is set by compare-and-swap;
//   - owners don't meet in a bitmap, whatever their kernels do at the same time,
//     and the units of one are close together.
//
// The price is that an owner has 1024 units or none: 128 KiB at 128 bytes a
// unit. Structures that live and die together therefore share an owner, such
// as the thousand small tables of a graph: each gives single units back itself,
// and all go with the graph. The alternatives were a tag beside each unit, which
// costs a memory access for each unit and a pass over all of them to free one
// owner's, and tags of memory blocks that kernels set, with which a small
// structure, used by a thousand warps, claims a thousand memory blocks.
//
// An owner that grows takes at least as many memory blocks as it has, if the pool
// has as many, and a pool that grows takes as many super blocks as it has: each
// unit costs a constant.
//
// # Growth beside kernels
//
// Nothing waits for kernels when an owner or its pool grows. New memory blocks
// are filled, and super blocks entered in the table, before a Ref tells of them;
// what an older Ref names stays where it is until the owner is closed. Kernels
// that were launched with an older Ref take units of the memory blocks it
// counts.
//
// They may also meet younger units, if others put the addresses of such units
// where they look: lookups in a list, say, to which later launches append. No
// launch order makes these units' first content, or the entry of their super
// block, come before such a read. So a thread that publishes the address of a
// unit calls Allocator::publish before, and one that has read an address calls
// Allocator::meet before it follows it: two fences, which make the
// publication a release and the read an acquire, and with them the host's work,
// which comes before the publisher's launch, comes before what the reader does
// next. Both compare first. Units at addresses below Ref.Known were there before
// the launch, as long as the owner has the first memory blocks of the pool, in
// order: the only owner of a pool pays a comparison for each unit met. One that
// has others' neighbours pays a fence for each. Units below Ref.Old were there
// when the first Ref was given out, and publishing them costs a comparison.
// Reserve what is known to be needed before the first call of Ref.
//
// # Concurrency
//
// All methods may be called from many goroutines. Batches of a pool from host
// memory run one after another, each on the whole device. Batches of one owner
// on streams of the caller run in the order of the calls; those of different
// owners, and kernels of the caller, have no order among them and need none.
// Clear and Close want what uses the owner's units to have completed.
package alloc
