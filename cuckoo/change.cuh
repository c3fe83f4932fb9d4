// How the kernels of package cuckoo run batches of changes.
#pragma once

#include "layout.cuh"
#include "tuning.cuh"
#include "weft/rounds_change.cuh"

namespace weft::cuckoo {

// change_some runs one operation per lane, in the launch that moves no keys.
template <class PathTile, class V = void>
__device__ __forceinline__ void change_some(const Table& t, uint32_t flags, Operation<typename PathTile::S>& op) {
  using S = typename PathTile::S;
  if constexpr (PathTile::kCounts) change_by_locks<S, V>(t, op, [&](Operation<S>& now) __attribute__((always_inline)) { change_along<PathTile, V>(t, flags | kReuse, now); });
  else change_along<PathTile, V>(t, flags, op);
}

template <class PathTile, class K, class V>
__device__ __forceinline__ void change_batch(const ChangeParams<Table>& p) {
  using S = typename PathTile::S;
  change_in_place<S, K, V>(p, [&](Operation<S>& op) { change_some<PathTile>(p.table, p.changes.flags, op); });
}

// change_of_eight runs one operation per lane, in buckets of eight slots (rounds_change.cuh).
template <class S, bool Balances>
__device__ __forceinline__ void change_of_eight(const Table& t, uint32_t flags, Operation<S>& op) {
  const Path path = path_of<S>(t, op.key);
  change_part(op, !path.extra(), [&](Operation<S>& now) __attribute__((always_inline)) {
    change_in_two<S>(slots_of<S>(t), flags, Balances, now, stored<S>(op.key), path.first, [&](const BucketRounds<S>&, bool hit, Seen here) __attribute__((always_inline)) {
      const bool ends = hit || (!Balances && here.empties() != 0);
      return !now.there || ends || t.buckets == 1 ? kAll : path.second;
    });
  });
  if (ballot(kAll, op.there && path.extra()) != 0)
    change_part(op, path.extra(), [&](Operation<S>& now) __attribute__((always_inline)) { change_along<PathTile<S, kWideLanes>>(t, flags, now); });
}

// change_batch_of_eight runs a batch by change_of_eight. If slots may be pending, it uses
// change_some.
template <class S, class K, class V, bool Balances>
__device__ __forceinline__ void change_batch_of_eight(const ChangeParams<Table>& p) {
  using Tile = PathTile<S, kWideLanes, Balances>;
  change_strides<S, K, V>(p, [&](Operation<S>& op) __attribute__((always_inline)) {
    if constexpr (S::kTwoStep) {
      change_some<Tile>(p.table, p.changes.flags, op);
      return true;
    } else if constexpr (Balances) {
      return try_by_lock<S>(p.table, op, [&](Operation<S>& now) __attribute__((always_inline)) { change_of_eight<S, true>(p.table, p.changes.flags | kReuse, now); });
    } else {
      change_of_eight<S, false>(p.table, p.changes.flags, op);
      return true;
    }
  });
}

// change_one runs one operation per lane, in kernels that need not be fast.
template <class S>
__device__ __forceinline__ void change_one(const Table& t, Operation<S>& op) {
  change_along<PathTile<S, kNarrowLanes>>(t, 0, op);
}

// Evicts are the rules of moves (evict.cuh) for slots of type S.
template <class S>
using Evicts = Rules<S, PathTile<S, kWideLanes>>;

}  // namespace weft::cuckoo
