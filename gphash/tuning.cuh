// Tuning of the kernels of gphash.
#pragma once

#include "weft/cuda.cuh"

namespace weft::gphash {

// Threads per block of every kernel.
constexpr int kBlock = 256;

// Blocks that must fit a multiprocessor, which bounds registers. Lookups wait for the host's memory
// most of the time: what counts is how many are under way.
constexpr int kGetBlocks = 6;
constexpr int kChangeBlocks = 4;

}  // namespace weft::gphash
