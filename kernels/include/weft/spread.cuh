// The order in which the lines or buckets of a table are read: the twin of internal/core/spread.go,
// which explains it.
#pragma once

#include "cuda.cuh"

namespace weft {

// Spread iterates over one thread's share of the order: number first, first + stride, first + 2
// stride, …. It takes one modulo at the beginning, none on the way. n and step are below 2^31;
// number n itself is the extra place after the others.
struct Spread {
  uint32_t n, hop, place;

  __device__ __forceinline__ Spread(uint32_t n, uint32_t step, uint64_t first, uint64_t stride)
      : n(n), hop(uint32_t(stride % n * step % n)), place(uint32_t(first % n * step % n)) {}

  // at returns the place of `number`, the thread's current one.
  __device__ __forceinline__ uint32_t at(uint64_t number) const { return number < n ? place : n; }
  __device__ __forceinline__ void next() {
    place += hop;
    if (place >= n) place -= n;
  }
};

}  // namespace weft
