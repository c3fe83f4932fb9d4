// Operations that single lanes leave over to tiles. If a table lies in the cache, a lane completes
// most operations by itself, in fewer instructions than a tile. The other operations wait here
// until they fill the warp, because one operation takes as long as 32.
#pragma once

#include "warp.cuh"

namespace weft {

// DeferredOps holds the operations that the lanes of a warp have left over.
template <class Key, bool HasValue>
struct DeferredOps {
  // Place is shared memory for these operations, one for each warp of a block.
  struct Place {
    uint32_t i[2 * kWarp];     // number of the operation in the batch
    uint32_t step[2 * kWarp];  // number of steps that the operation has taken
    Key key[2 * kWarp];
    Key value[HasValue ? 2 * kWarp : 1];
  };

  Place& place;
  uint32_t n = 0;  // number of operations; the same for all lanes

  __device__ __forceinline__ explicit DeferredOps(Place* of_block) : place(of_block[thread_in_block() / kWarp]) {}

  // push stores the operations of the lanes with `has`. The caller guarantees n < kWarp.
  __device__ __forceinline__ void push(bool has, uint32_t i, uint32_t step, Key key, Key value) {
    uint32_t votes = ballot(kAll, has), at = n + popcount(votes & ((1u << lane_index()) - 1));
    if (has) {
      place.i[at] = i, place.step[at] = step, place.key[at] = key;
      if constexpr (HasValue) place.value[at] = value;
    }
    n += popcount(votes);
    sync_warp();
  }

  // pop returns up to one operation to each lane, and reports whether the lane has one. It
  // distributes the operations evenly over tiles of `Lanes` lanes.
  template <int Lanes>
  __device__ __forceinline__ bool pop(uint32_t& i, uint32_t& step, Key& key, Key& value) {
    constexpr uint32_t tiles = kWarp / Lanes;
    uint32_t lane = lane_index(), number = lane % Lanes * tiles + lane / Lanes, most = n < kWarp ? n : kWarp;
    bool has = number < most;
    if (has) {
      uint32_t at = n - most + number;
      i = place.i[at], step = place.step[at], key = place.key[at];
      if constexpr (HasValue) value = place.value[at];
    }
    n -= most;
    sync_warp();  // before other operations take their places
    return has;
  }
};

}  // namespace weft
