// What the kernels of package cuckoo do with batches of changes.
#pragma once

#include "layout.cuh"
#include "tuning.cuh"

namespace weft::cuckoo {

// change_some runs an operation per lane in the launch that moves nothing.
template <class PathTile, class V = void>
__device__ __forceinline__ void change_some(const Table& t, uint32_t flags, Operation<typename PathTile::S>& op) {
  if constexpr (PathTile::kCounts) change_locked<PathTile, V>(t, flags, op);
  else change_along<PathTile, V>(t, flags, op);
}

template <class PathTile, class K, class V>
__device__ __forceinline__ void change_batch(const ChangeParams<Table>& p) {
  using S = typename PathTile::S;
  uint32_t i = uint32_t(thread_index());
  Operation<S> op = operation<S, K, V>(p.changes, i);
  change_some<PathTile>(p.table, p.changes.flags, op);
  outcome<S, V>(p.changes, i, op);
  list(p.changes, i, op, contends(op) && op.outcome != kFull);  // those are listed behind evictions
  tally_block(p.table.counters, op.outcome);
}

// change_one runs an operation per lane in a kernel whose speed does not count.
template <class S>
__device__ __forceinline__ void change_one(const Table& t, Operation<S>& op) {
  change_along<PathTile<S, kNarrowLanes>>(t, 0, op);
}

// Evicts moves keys for operations of slots S.
template <class S>
using Evicts = Mover<Rules<S, PathTile<S, kWideLanes>>>;

// evict runs what a change has left: a warp works on so many operations that all warps
// have some, since each is a chain of reads. Reduces: values may be combined.
template <class S, class K, class V, class Reduces>
__device__ __forceinline__ void evict(const EvictParams& p) {
  __shared__ SlotQueue queues[kBlock / kWarp];
  const uint32_t n = load_relaxed(p.spilled.count);
  if (n == 0) return;
  begin_moving(p.table);
  Evicts<S> mover{p.table, queues[thread_in_block() / kWarp]};
  each_spilled(p.spilled, p.changes.n, [&](uint32_t i) __attribute__((always_inline)) {
    Operation<S> op = operation<S, K, V>(p.changes, i);
    insert_locked<typename Evicts<S>::Rules, Reduces>(p.changes.flags & ~kSteady, op, p.still, mover);
    outcome<S, V>(p.changes, i, op);
    list(p.changes, i, op, contends(op));
    tally(p.table.counters, op.outcome);
  });
  mover.count();
  end_moving(p.table);
}

}  // namespace weft::cuckoo
