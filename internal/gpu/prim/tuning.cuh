// Tuning constants of the kernels. lab/NOTES.md explains how each was chosen. sort.go, scan.go and
// reduce.go repeat the sizes of blocks and tiles.
#pragma once

#include "weft/cuda.cuh"

namespace weft::prim {

// Sorts: threads per block, rows per thread, and blocks per multiprocessor. The number of blocks
// limits a thread to 64 registers. Fewer warps are slower, even with larger tiles. With the same
// number of warps, larger tiles spill registers.
template <uint32_t Key, uint32_t Val>
struct SortTuning {
  static constexpr uint32_t kThreads = 512, kItems = Key == 8 || Val == 8 ? 11 : Val == 4 ? 16 : 17, kBlocks = 2;
};
constexpr uint32_t kHistogramThreads = 512;

// Scans: blocks per multiprocessor, threads per block, and the numbers of counts and keys per
// thread. These numbers depend on the width of a sum or a key.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr uint32_t kScanBlocks = 3;  // the compiler needs more registers
#else
constexpr uint32_t kScanBlocks = 4;
#endif
constexpr uint32_t kScanThreads = 256;
template <uint32_t Bits>
struct ScanTuning {
  static constexpr uint32_t kCounts = Bits == 32 ? 32 : 20, kKeys = Bits == 32 ? 28 : 16;
};

// Reductions: threads per block, values and segment ends per thread, and the maximum number of
// tiles over which a warp combines carries by itself.
constexpr uint32_t kReduceThreads = 256, kReduceItems = 8, kReduceTile = kReduceThreads * kReduceItems;
constexpr uint32_t kLongCarry = 256;

}  // namespace weft::prim
