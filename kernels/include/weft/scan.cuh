// Prefix sums that convert counts to offsets, in three launches.
#pragma once

#include "sums.cuh"

namespace weft {

struct ScanParams {
  const uint32_t* counts;
  uint64_t* offsets;  // output: n + 1 offsets
  uint64_t n;
};

// A warp processes a strip of kStrip counts. After the first launch, the place of a strip's first
// offset holds the sum of the strip. After the second launch, it holds the sum of all earlier
// strips.
constexpr uint32_t kStrip = 1024;

// strip calls item(i) for n items, and sum(i, s) with the sum s of all items before item i. The
// sums start with `before`. strip returns the total.
template <class Item, class Sum>
__device__ __forceinline__ uint64_t strip(uint64_t n, uint64_t before, Item item, Sum sum) {
  uint32_t lane = lane_index();
  for (uint64_t i = lane; i - lane < n; i += kWarp) {
    uint64_t v = i < n ? item(i) : 0, up_to = running(v);
    if (i < n) sum(i, before + up_to - v);
    before += shuffle(kAll, up_to, kWarp - 1);
  }
  return before;
}

// scan_sums, in the first launch, adds up each strip.
__device__ __forceinline__ void scan_sums(const ScanParams& p) {
  uint64_t lo = thread_index() / kWarp * kStrip;
  if (lo >= p.n) return;
  uint64_t n = p.n - lo < kStrip ? p.n - lo : kStrip;
  uint64_t sum = strip(n, 0, [&](uint64_t i) { return uint64_t(p.counts[lo + i]); }, [](uint64_t, uint64_t) {});
  if (lane_index() == 0) p.offsets[lo] = sum;
}
// scan_strips, in the second launch, adds up the sums of the strips, in one warp.
__device__ __forceinline__ void scan_strips(const ScanParams& p) {
  if (thread_index() >= kWarp) return;
  uint64_t total = strip((p.n + kStrip - 1) / kStrip, 0, [&](uint64_t i) { return p.offsets[i * kStrip]; },
                         [&](uint64_t i, uint64_t sum) { p.offsets[i * kStrip] = sum; });
  if (lane_index() == 0) p.offsets[p.n] = total;
}
// scan_offsets, in the third launch, writes the offsets.
__device__ __forceinline__ void scan_offsets(const ScanParams& p) {
  uint64_t lo = thread_index() / kWarp * kStrip;
  if (lo >= p.n) return;
  uint64_t n = p.n - lo < kStrip ? p.n - lo : kStrip;
  // The lane that later writes this word also reads it, because nothing orders accesses of
  // different lanes.
  uint64_t before = shuffle(kAll, lane_index() == 0 ? p.offsets[lo] : 0, 0);
  strip(n, before, [&](uint64_t i) { return uint64_t(p.counts[lo + i]); },
        [&](uint64_t i, uint64_t sum) { p.offsets[lo + i] = sum; });
}

}  // namespace weft
