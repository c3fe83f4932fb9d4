// Free leaves. No version contains them.
#pragma once

#include "weft/ordered_index.cuh"

namespace weft::ordered {

struct MarkParams {
  Index x;
  uint8_t* used;  // one byte per leaf
};

// mark marks the leaves that a version contains.
__device__ __forceinline__ void mark(const MarkParams& p) {
  const uint64_t leaves = p.x.content->leaves;
  for (uint64_t i = thread_index(); i < leaves; i += threads_in_grid()) store_relaxed(p.used + p.x.ids[i], 1);
}

struct CollectParams {
  const uint8_t* used;
  uint32_t* counts;    // free leaves among each kFanout; output of survey
  const uint32_t* at;  // prefix sums of counts
  uint32_t* free;      // output of collect
  uint32_t* taken;
  uint64_t n;  // number of leaves / kFanout
};

__device__ __forceinline__ void survey(const CollectParams& p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) p.counts[i] = kFanout - sum_of(p.used + i * kFanout, kFanout);
}

// collect lists the free leaves. A warp lists the leaves that its lanes' counts cover, so it writes
// whole lines.
__device__ __forceinline__ void collect(const CollectParams& p) {
  const uint32_t lane = lane_index();
  for (uint64_t i = thread_index() / kWarp * kWarp; i < p.n; i += threads_in_grid()) {
    uint32_t to = p.at[i];
    for (uint64_t leaf = i * kFanout; leaf < (i + kWarp) * kFanout && leaf < p.n * kFanout; leaf += kWarp) {
      const bool free = !p.used[leaf + lane];
      const uint32_t which = ballot(kAll, free);
      if (free) p.free[to + popcount(which & ((1u << lane) - 1))] = leaf + lane;
      to += popcount(which);
    }
  }
  if (thread_index() == 0) *p.taken = 0;
}

}  // namespace weft::ordered
