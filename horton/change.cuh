// What the kernels of package horton do with batches of changes.
#pragma once

#include "layout.cuh"
#include "tuning.cuh"

namespace weft::horton {

template <class S>
using Narrow = PathTile<S, kLanes, kNarrowPieces>;
template <class S>
using Wide = PathTile<S, kLanes, kWidePieces>;

template <class PathTile, class K, class V>
__device__ __forceinline__ void change_batch(const ChangeParams<Table>& p) {
  using S = typename PathTile::S;
  uint32_t i = uint32_t(thread_index());
  Operation<S> op = operation<S, K, V>(p.changes, i);
  change_along<PathTile>(p.table, p.changes.flags, op);
  outcome<S, V>(p.changes, i, op);
  list(p.changes, i, op, contends(op) && op.outcome != kFull);  // those are listed behind evictions
  tally_block(p.table.counters, op.outcome);
}

// change_one runs an operation per lane in a kernel whose speed does not count.
template <class S>
__device__ __forceinline__ void change_one(const Table& t, Operation<S>& op) {
  change_along<Narrow<S>>(t, 0, op);
}

// Evicts moves keys for operations of slots S.
template <class S>
using Evicts = Mover<Rules<S, Narrow<S>>>;

// evict runs what a change has left. Reduces: values may be combined.
template <class S, class K, class V, class Reduces>
__device__ __forceinline__ void evict(const EvictParams& p) {
  __shared__ SlotQueue queues[kBlock / kWarp];
  if (load_relaxed(p.spilled.count) == 0) return;
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

}  // namespace weft::horton
