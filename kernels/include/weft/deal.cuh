// Work that is dealt out: rows, or lanes of a warp, have a number of items each, and all lanes take the same number of all.
#pragma once

#include "sums.cuh"

namespace weft {

// row_of is the last of rows lo to hi that begins at item `at` of all or before it. Items are numbers of 32 bits, or of 64.
template <typename Item>
__device__ __forceinline__ uint32_t row_of(const uint64_t* offsets, uint32_t lo, uint32_t hi, Item at) {
  while (lo < hi) {
    const uint32_t mid = hi - (hi - lo) / 2;
    if (offsets[mid] <= at) {
      lo = mid;
    } else {
      hi = mid - 1;
    }
  }
  return lo;
}

// owner is the lane that has item t of all, of sums that running has made: the first whose sum is larger.
__device__ __forceinline__ uint32_t owner(uint32_t sum, uint32_t t) {
  uint32_t lane = 0;
#pragma unroll
  for (uint32_t step = kWarp / 2; step != 0; step /= 2) {
    if (shuffle(kAll, sum, lane + step - 1) <= t) lane += step;
  }
  return lane;
}

}  // namespace weft
