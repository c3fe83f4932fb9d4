// Tuning of the kernels of gphash.
#pragma once

#include "weft/cuda.cuh"

namespace weft::gphash {

// Threads per block of every kernel.
constexpr int kBlock = 256;

// Min blocks per multiprocessor, which bounds registers. Lookups wait for the host's memory most of
// the time, so the number in flight matters.
constexpr int kGetBlocks = 6;
constexpr int kChangeBlocks = 4;

}  // namespace weft::gphash
