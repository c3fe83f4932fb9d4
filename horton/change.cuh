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
  change_unmoved<S, K, V>(p, [&](Operation<S>& op) { change_along<PathTile>(p.table, p.changes.flags, op); });
}

// change_one runs an operation per lane in a kernel whose speed does not count.
template <class S>
__device__ __forceinline__ void change_one(const Table& t, Operation<S>& op) {
  change_along<Narrow<S>>(t, 0, op);
}

// Moved is how keys move for slots S.
template <class S>
using Moved = Rules<S, Narrow<S>>;

}  // namespace weft::horton
