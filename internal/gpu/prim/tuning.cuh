// Numbers of the kernels; lab/NOTES.md says how each was chosen. prim.go and
// the files beside it know the sizes of blocks and tiles.
#pragma once

#include "weft/cuda.cuh"

namespace weft::prim {

// Sorts: threads of a block, rows of each, and how many blocks share a
// multiprocessor, which bounds their registers to 64. Fewer warps are slower,
// even with larger tiles; larger tiles of as many warps spill.
template <uint32_t Key, uint32_t Val>
struct SortTuning {
  static constexpr uint32_t kThreads = 512, kItems = Key == 8 || Val == 8 ? 11 : Val == 4 ? 16 : 17, kBlocks = 2;
};
constexpr uint32_t kHistogramThreads = 512;

// Scans: threads of a block; by the width of a sum or a key, how many counts
// and keys each takes, and how many blocks share a multiprocessor.
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

// Reductions: threads of a block, values and ends of segments of each, and
// tiles that a warp adds up by itself.
constexpr uint32_t kReduceThreads = 256, kReduceItems = 8, kReduceTile = kReduceThreads * kReduceItems;
constexpr uint32_t kLongCarry = 256;

}  // namespace weft::prim
