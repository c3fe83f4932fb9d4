// The order in which kernels read the lines or buckets of a table. internal/core/spread.go has the
// same order and explains it.
#pragma once

#include "cuda.cuh"

namespace weft {

// Spread iterates over one thread's share of the order: numbers first, first + stride, first + 2
// stride, …. Only its constructor computes remainders. n and step are less than 2^31. Number n is
// the extra place after all other places.
struct Spread {
  uint32_t n, hop, place;

  __device__ __forceinline__ Spread(uint32_t n, uint32_t step, uint64_t first, uint64_t stride)
      : n(n), hop(uint32_t(stride % n * step % n)), place(uint32_t(first % n * step % n)) {}

  // at returns the place of `number`, which must be the thread's current number.
  __device__ __forceinline__ uint32_t at(uint64_t number) const { return number < n ? place : n; }
  __device__ __forceinline__ void next() {
    place += hop;
    if (place >= n) place -= n;
  }
};

}  // namespace weft
