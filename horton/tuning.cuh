// Tuning of the horton kernels.
#pragma once

namespace weft::horton {

// Threads per block of every kernel.
constexpr int kBlock = 256;

// Number of blocks that must fit on a multiprocessor. It limits the number of registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kGetBlocks = 5;
#else
constexpr int kGetBlocks = 6;
#endif
// In rounds (rounds.cuh), a lane holds up to four pieces of 16 bytes at a time. With slots of 16
// bytes, it holds eight.
constexpr int kRoundBlocks = 4, kWideRoundBlocks = 2;
constexpr int kChangeBlocks = 4;
constexpr int kDisplaceBlocks = 4;
constexpr int kEvictBlocks = 2;

}  // namespace weft::horton
