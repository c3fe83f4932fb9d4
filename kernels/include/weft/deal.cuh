// Even distribution of work: rows, or lanes of a warp, have different numbers of items, and each
// lane processes the same number of items.
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

// owner returns the lane that has item t, if items are numbered over all lanes. sum is the result
// of `running` in this lane. The owner is the first lane with a sum above t.
__device__ __forceinline__ uint32_t owner(uint32_t sum, uint32_t t) {
  uint32_t lane = 0;
#pragma unroll
  for (uint32_t step = kWarp / 2; step != 0; step /= 2) {
    if (shuffle(kAll, sum, lane + step - 1) <= t) lane += step;
  }
  return lane;
}

}  // namespace weft
