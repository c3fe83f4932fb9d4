// Tuning of the horton kernels.
#pragma once

namespace weft::horton {

// Threads per block of every kernel.
constexpr int kBlock = 256;

// Blocks that must fit a multiprocessor, which bounds registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kGetBlocks = 5;
#else
constexpr int kGetBlocks = 6;
#endif
// A lane holds four pieces of buckets at a time, or eight.
constexpr int kRoundBlocks = 4, kWideRoundBlocks = 2;
constexpr int kChangeBlocks = 4;
constexpr int kDisplaceBlocks = 4;
constexpr int kEvictBlocks = 2;

}  // namespace weft::horton
