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
  change_unmoved<S, K, V>(p, [&](Operation<S>& op) { change_some<PathTile>(p.table, p.changes.flags, op); });
}

// change_one runs an operation per lane in a kernel whose speed does not count.
template <class S>
__device__ __forceinline__ void change_one(const Table& t, Operation<S>& op) {
  change_along<PathTile<S, kNarrowLanes>>(t, 0, op);
}

// Evicts is how keys move for slots S.
template <class S>
using Evicts = Rules<S, PathTile<S, kWideLanes>>;

}  // namespace weft::cuckoo
