// Tuning of the slab kernels, with the measurement of each choice: one GPU, 2^25 keys, G operations
// per second (lab/NOTES.md has the tables).
#pragma once

namespace weft::slab {

// Threads per block of every kernel.
constexpr int kBlock = 256;

// Minimum blocks per multiprocessor, which bound the registers. Lookups need 32 registers and no
// more. Changes would take 53 (58 with slots of 16 bytes). The throughput of changes at utilization
// 0.55, with at most 64, 48 and 40 registers: inserts 12.5, 13.5 and 13.4; deletes 13.2, 13.9 and
// 13.8; mixes with 20 % updates 12.0, 13.5 and 14.4. But 40 registers spill, and slots of 16 bytes
// lose by it. Multimaps spill at 48.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kGetBlocks = 5, kChangeBlocks = 4, kMultiBlocks = 3;
#else
constexpr int kGetBlocks = 8, kChangeBlocks = 5, kMultiBlocks = 4;
#endif

}  // namespace weft::slab
