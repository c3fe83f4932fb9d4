// Reductions of one key by many threads of a block in a mixed batch: one thread does them for all.
// Where many threads compete for one slot, most attempts fail. So their number must be small, first
// in a warp, then in a block.
#pragma once

#include "change.cuh"

namespace weft {

// kCrowded is the number of lanes of a warp from which on its reductions of a key meet those of
// other warps.
constexpr uint32_t kCrowded = 8;

// served completes an operation that another thread has done.
template <class S>
__device__ __forceinline__ void served(Operation<S>& op, uint32_t outcome) {
  op.there = true;
  op.outcome = outcome == kFull ? kFull : kReplaced;
}

// Together unites the reductions of a warp. All its lanes call unite before they change the table,
// and disband after that.
template <class S, class V>
struct Together {
  uint32_t first;  // the lane that does this one's operation

  // unite combines the operations of the lanes with one kind and key. It returns how many other
  // operations this lane does: none, if another lane does its own.
  __device__ __forceinline__ uint32_t unite(uint32_t flags, Operation<S>& op) {
    using Key = typename S::Key;
    uint32_t lane = lane_index();
    uint32_t peers = match_any(kAll, op.there ? op.kind : kAll - lane) & match_any(kAll, uint32_t(op.key));
    if constexpr (sizeof(Key) == 8) peers &= match_any(kAll, uint32_t(op.key >> 32));
    first = lowest(peers);
    uint32_t rest = lane == first ? peers & (peers - 1) : 0, size = popcount(rest);
    while (ballot(kAll, rest != 0) != 0) {
      Key value = shuffle(kAll, op.value, rest != 0 ? lowest(rest) : lane);
      if (rest != 0) op.value = combine<V>(op.kind, flags, V(op.value), V(value));
      rest &= rest - 1;
    }
    op.there &= lane == first;
    return size;
  }

  // disband returns the outcomes of the lanes' operations.
  __device__ __forceinline__ void disband(Operation<S>& op) const {
    uint32_t outcome = shuffle(kAll, uint32_t(op.outcome), first);
    if (first != lane_index()) served(op, outcome);
  }
};

// Union is the same for a block. All its threads call it.
template <class S, class V>
struct Union {
  using Key = typename S::Key;

  Together<S, V> lanes;
  uint32_t warp;   // the warp that does the operation of this warp's crowd
  bool meets;      // crowds have met
  bool leads;      // this lane acts for its warp's crowd

  struct Crowds {  // of each warp
    Key keys[kWarp], values[kWarp];
    uint32_t kinds[kWarp], outcomes[kWarp];
  };
  Crowds& crowds;

  __device__ __forceinline__ explicit Union(Crowds& c) : crowds(c) {}

  __device__ __forceinline__ void unite(uint32_t flags, Operation<S>& op) {
    uint32_t hot = ballot(kAll, lanes.unite(flags, op) >= kCrowded);
    leads = hot != 0 && lane_index() == lowest(hot);
    meets = count_block(leads) > 1;
    warp = thread_in_block() / kWarp;
    if (meets) within_block(flags, op);
  }

  __device__ __forceinline__ void disband(Operation<S>& op) {
    if (meets) {
      uint32_t own = thread_in_block() / kWarp;
      if (leads && warp == own) crowds.outcomes[own] = op.outcome;
      sync_block();
      if (leads && warp != own) served(op, crowds.outcomes[warp]);
    }
    lanes.disband(op);
  }

 private:
  // within_block combines the operations of a block's crowds on one key, in the first of them.
  __device__ __forceinline__ void within_block(uint32_t flags, Operation<S>& op) {
    uint32_t own = thread_in_block() / kWarp, warps = threads_per_block() / kWarp;
    uint32_t led = ballot(kAll, leads);
    if (lane_index() == 0 && led == 0) crowds.kinds[own] = kNone;
    if (leads) crowds.keys[own] = op.key, crowds.values[own] = op.value, crowds.kinds[own] = op.kind;
    sync_block();
    if (!leads) return;
    for (uint32_t w = 0; w < warps && warp == own; w++) {
      if (w == own || crowds.kinds[w] != op.kind || crowds.keys[w] != op.key) continue;
      if (w < own) warp = w, op.there = false;
      else op.value = combine<V>(op.kind, flags, V(op.value), V(crowds.values[w]));
    }
  }
};

}  // namespace weft
