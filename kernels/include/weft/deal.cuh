// Work that is dealt out to the lanes of a warp: each has a number of items, and all take the same number of all.
#pragma once

#include "sums.cuh"

namespace weft {

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
