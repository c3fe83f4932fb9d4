// Tuning of the kernels of gphash.
#pragma once

#include "weft/cuda.cuh"

namespace weft::gphash {

// Threads per block of every kernel.
constexpr int kBlock = 256;

// Minimum number of blocks per multiprocessor, which limits the number of registers. Lookups wait
// for host memory most of the time, so the number of lookups in flight matters.
constexpr int kGetBlocks = 6;
constexpr int kChangeBlocks = 4;

}  // namespace weft::gphash
