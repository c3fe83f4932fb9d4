// Work dealt out evenly: rows, or lanes of a warp, have a number of items each, and all lanes take
// the same number of items.
#pragma once

#include "sums.cuh"

namespace weft {

// row_of returns the last of rows lo to hi that begins at or before item `at`. Items are numbers of
// 32 or 64 bits.
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

// owner returns the lane with item t of all, given the sums that running has computed: the first
// with a larger sum.
__device__ __forceinline__ uint32_t owner(uint32_t sum, uint32_t t) {
  uint32_t lane = 0;
#pragma unroll
  for (uint32_t step = kWarp / 2; step != 0; step /= 2) {
    if (shuffle(kAll, sum, lane + step - 1) <= t) lane += step;
  }
  return lane;
}

}  // namespace weft
