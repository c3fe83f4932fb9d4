// What the kernels of package linear do with batches of changes.
#pragma once

#include "layout.cuh"
#include "tuning.cuh"
#include "weft/linear_change.cuh"

namespace weft::linear {

template <class S, class K, class V, int Lanes, int Pieces>
__device__ __forceinline__ void change_batch(const ChangeParams<Table>& p) {
  uint32_t i = uint32_t(thread_index());
  Operation<S> op = operation<S, K, V>(p.changes, i);
  leave_reductions(p.changes, op);
  change<S, Lanes, Pieces>(p.table, p.changes.flags, op);
  outcome<S, V>(p.changes, i, op);
  list(p.changes, i, op, contends(op));
  tally_block(p.table.counters, op.outcome);
}

// change_one runs an operation per lane in a kernel whose speed does not count.
template <class S>
__device__ __forceinline__ void change_one(const Table& t, Operation<S>& op) {
  change<S, kNarrowLanes, kNarrowPieces>(t, 0, op);
}

}  // namespace weft::linear
