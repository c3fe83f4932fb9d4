// Tuning of the slab kernels, with the measurement for each choice. The measurements are in 10^9
// operations per second on one GPU, with 2^25 keys (lab/NOTES.md has the tables).
#pragma once

namespace weft::slab {

// Threads per block of every kernel.
constexpr int kBlock = 256;

// Minimum number of blocks per multiprocessor, which limits the number of registers. Lookups need
// only 32 registers. Changes would take 53 registers, or 58 with slots of 16 bytes. The throughput
// of changes at utilization 0.55 depends on the maximum number of registers:
//
//	registers  inserts  deletes  mixes with 20 % updates
//	       64     12.5     13.2                     12.0
//	       48     13.5     13.9                     13.5
//	       40     13.4     13.8                     14.4
//
// But 40 registers spill, which makes slots of 16 bytes slower. Multimaps spill at 48 registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kGetBlocks = 5, kChangeBlocks = 4, kMultiBlocks = 3;
#else
constexpr int kGetBlocks = 8, kChangeBlocks = 5, kMultiBlocks = 4;
#endif

}  // namespace weft::slab
