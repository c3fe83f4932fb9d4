// Combines reductions of one key by many threads of a block in a mixed batch: one thread runs them
// for all. If many threads compete for one slot, most attempts fail. So threads are combined first
// in a warp, and then in a block.
#pragma once

#include "change.cuh"

namespace weft {

// If one lane runs at least kMaxCombined operations of other lanes in its warp, the block combines
// them with operations of other warps. These operations are the crowd of the warp.
constexpr uint32_t kMaxCombined = 8;

// served completes an operation that another thread has run.
template <class S>
__device__ __forceinline__ void served(Operation<S>& op, uint32_t outcome) {
  op.there = true;
  op.outcome = outcome == kFull ? kFull : kReplaced;
}

// WarpReduction combines the reductions of a warp. All its lanes call unite before they change the
// table, and distribute afterwards.
template <class S, class V>
struct WarpReduction {
  uint32_t first;  // the lane that runs this lane's operation

  // unite combines the operations of lanes with the same kind and key. It returns the number of
  // operations of other lanes that this lane runs. If another lane runs the operation of this lane,
  // unite returns 0.
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

  // distribute sets the outcomes of operations that other lanes have run.
  __device__ __forceinline__ void distribute(Operation<S>& op) const {
    uint32_t outcome = shuffle(kAll, uint32_t(op.outcome), first);
    if (first != lane_index()) served(op, outcome);
  }
};

// BlockReduction combines the reductions of a block. All its threads must call each method.
template <class S, class V>
struct BlockReduction {
  using Key = typename S::Key;

  WarpReduction<S, V> lanes;
  uint32_t warp;   // the warp that runs the operation of this warp's crowd
  bool meets;      // at least two warps of the block have crowds
  bool leads;      // this lane runs the operation of its warp's crowd

  struct Crowds {  // one crowd of each warp
    Key keys[kWarp], values[kWarp];
    uint32_t kinds[kWarp], outcomes[kWarp];
  };
  Crowds& crowds;

  __device__ __forceinline__ explicit BlockReduction(Crowds& c) : crowds(c) {}

  __device__ __forceinline__ void unite(uint32_t flags, Operation<S>& op) {
    uint32_t hot = ballot(kAll, lanes.unite(flags, op) >= kMaxCombined);
    leads = hot != 0 && lane_index() == lowest(hot);
    meets = count_block(leads) > 1;
    warp = thread_in_block() / kWarp;
    if (meets) within_block(flags, op);
  }

  __device__ __forceinline__ void distribute(Operation<S>& op) {
    if (meets) {
      uint32_t own = thread_in_block() / kWarp;
      if (leads && warp == own) crowds.outcomes[own] = op.outcome;
      sync_block();
      if (leads && warp != own) served(op, crowds.outcomes[warp]);
    }
    lanes.distribute(op);
  }

 private:
  // within_block combines operations of crowds with the same kind and key, in the first of these
  // warps.
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
