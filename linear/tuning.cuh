// Tuning of the linear kernels, with the measurement for each choice: one H200, 10^8 keys, G
// operations per second (lab/NOTES.md has the tables).
#pragma once

namespace weft::linear {

// Threads per block of every kernel.
constexpr int kBlock = 256;

// Blocks that must fit a multiprocessor, which bounds registers. Lookups of 16-byte slots at load
// 0.8: hits 24.5, misses 11.4 with 32 registers; 22.6 and 9.8 with the 39 the compiler would take.
// Changes get what they need without spilling: 40 to 52. Older architectures need a few more for
// the same.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kGetBlocks = 5;
#else
constexpr int kGetBlocks = 8;
#endif
constexpr int kChangeBlocks = 4;

// The same for batches on cached tables, where a launch has exactly this many (gpu.go).
constexpr int kGetCachedBlocks = 4;
constexpr int kChangeCachedBlocks = 4;

// The same for mixed batches by sectors: as many as fit of other changes. Left alone, the compiler
// takes a few more registers and fits one block less.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
template <class S>
constexpr int kMixedBlocks = kChangeBlocks;
#else
template <class S>
constexpr int kMixedBlocks = sizeof(typename S::Word) == 16 ? 5 : 6;
#endif

}  // namespace weft::linear
