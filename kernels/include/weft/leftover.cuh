// Lanes first, tiles for the rest. Where a table lies in cache, a lane does most operations by
// itself in fewer instructions than a tile needs. What lanes leave over waits here until it fills
// the warp, since one operation takes as long as 32.
#pragma once

#include "warp.cuh"

namespace weft {

// Leftovers holds the operations that the lanes of a warp have left over.
template <class Key, bool HasValue>
struct Leftovers {
  // Place is their shared memory, one for each warp of a block.
  struct Place {
    uint32_t i[2 * kWarp];     // the operation's number in the batch
    uint32_t step[2 * kWarp];  // how far it has come
    Key key[2 * kWarp];
    Key value[HasValue ? 2 * kWarp : 1];
  };

  Place& place;
  uint32_t n = 0;  // the same for all lanes

  __device__ __forceinline__ explicit Leftovers(Place* of_block) : place(of_block[thread_in_block() / kWarp]) {}

  // push stores the operations of those lanes that have one. The caller guarantees n < kWarp.
  __device__ __forceinline__ void push(bool has, uint32_t i, uint32_t step, Key key, Key value) {
    uint32_t votes = ballot(kAll, has), at = n + popcount(votes & ((1u << lane_index()) - 1));
    if (has) {
      place.i[at] = i, place.step[at] = step, place.key[at] = key;
      if constexpr (HasValue) place.value[at] = value;
    }
    n += popcount(votes);
    sync_warp();
  }

  // pop returns an operation to each lane, or none, dealt out evenly to tiles of `Lanes` lanes.
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
    sync_warp();  // before others take their places
    return has;
  }
};

}  // namespace weft
