// Tuning of the linear kernels, with the measurement for each choice. The measurements are in 10^9
// operations per second on one H200, with 10^8 keys (lab/NOTES.md has the tables).
#pragma once

namespace weft::linear {

// Threads per block of every kernel.
constexpr int kBlock = 256;

// Number of blocks that must fit on a multiprocessor. It limits the number of registers. For
// lookups in 16-byte slots at load 0.8, the compiler would take 39 registers:
//
//	registers  hits  misses
//	       32  24.5    11.4
//	       39  22.6     9.8
//
// Changes get the registers that they need without spilling, 40 to 52. Older architectures need a
// few more registers for the same kernels.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kGetBlocks = 5;
#else
constexpr int kGetBlocks = 8;
#endif
constexpr int kChangeBlocks = 4;

// The same for batches on cached tables. A launch has exactly this number of blocks per
// multiprocessor (gpu.go).
constexpr int kGetCachedBlocks = 4;
constexpr int kChangeCachedBlocks = 4;

// The same for mixed batches with narrow tiles: as many blocks as fit for other changes. Without
// this limit, the compiler takes a few more registers, and one block less fits.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
template <class S>
constexpr int kMixedBlocks = kChangeBlocks;
#else
template <class S>
constexpr int kMixedBlocks = sizeof(typename S::Word) == 16 ? 5 : 6;
#endif

}  // namespace weft::linear
