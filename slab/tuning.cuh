// Tuning of the slab kernels, with the measurement behind each choice: one
// GPU, 2^25 keys, G operations per second (bench/NOTES.md has the tables).
#pragma once

namespace weft::slab {

// A tile of four lanes reads a slab in two pieces of 16 bytes each: 128 bytes
// at once, and a warp works on eight operations. With the paper's warp of 32
// lanes of four bytes the same memory gives 15 lookups where this gives 30.
constexpr int kLanes = 4, kPieces = 2;

// Threads per block of every kernel.
constexpr int kBlock = 256;

// Blocks that must fit a multiprocessor, which bounds registers. Lookups need
// 32 registers and no more. Changes would take 53 (58 with slots of 16 bytes).
// With at most 64, 48 and 40, at utilisation 0.55: inserts 12.5, 13.5 and 13.4,
// deletes 13.2, 13.9 and 13.8, mixes with 20 % updates 12.0, 13.5 and 14.4; but
// 40 spill, and slots of 16 bytes lose by it. Multimaps spill at 48.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kGetBlocks = 5, kChangeBlocks = 4, kMultiBlocks = 3;
#else
constexpr int kGetBlocks = 8, kChangeBlocks = 5, kMultiBlocks = 4;
#endif

// Pairs for one bucket of a multimap: threads that append one each fight for
// the same slots. A million pairs of one key took 3.4 s that way, those of 100
// keys 11 ms, of 10^4 keys 0.3 ms. Where a quarter of a warp's pairs and more
// are for one bucket, and after so many attempts, they are left to a few warps
// that append as many at once as a slab takes: 0.17 s. With more keys these few
// are slower than fighting: 33 ms for 100 keys after 64 attempts.
constexpr int kCrowd = 8, kTries = 512;

}  // namespace weft::slab
