// Sums and maxima over the lanes of a warp. All lanes must call these functions.
#pragma once

#include "warp.cuh"

namespace weft {

// add_warp_sum adds the sum of n over all lanes to a counter.
template <class N>
__device__ __forceinline__ void add_warp_sum(uint64_t* to, N n) {
  for (uint32_t x = kWarp / 2; x != 0; x /= 2) n += shuffle_xor(kAll, n, x);
  if (lane_index() == 0 && n != 0) add_relaxed(to, uint64_t(n));
}

// running returns the sum of n over all lanes up to and including this one.
template <class N>
__device__ __forceinline__ N running(N n) {
  const uint32_t lane = lane_index();
#pragma unroll
  for (uint32_t d = 1; d < kWarp; d *= 2) {
    const N below = shuffle(kAll, n, lane >= d ? lane - d : lane);
    if (lane >= d) n += below;
  }
  return n;
}

// warp_max returns the maximum of v over all lanes.
__device__ __forceinline__ uint32_t warp_max(uint32_t v) {
  for (uint32_t x = kWarp / 2; x != 0; x /= 2) {
    const uint32_t other = shuffle_xor(kAll, v, x);
    if (other > v) v = other;
  }
  return v;
}

}  // namespace weft
