// Batches of changes in the kernels of package horton.
#pragma once

#include "layout.cuh"
#include "tuning.cuh"
#include "weft/rounds_change.cuh"

namespace weft::horton {

template <class S>
using Narrow = PathTile<S, kLanes, kNarrowPieces>;
template <class S>
using Wide = PathTile<S, kLanes, kWidePieces>;

template <class PathTile, class K, class V>
__device__ __forceinline__ void change_batch(const ChangeParams<Table>& p) {
  using S = typename PathTile::S;
  change_in_place<S, K, V>(p, [&](Operation<S>& op) { change_along<PathTile>(p.table, p.changes.flags, op); });
}

// change_of_eight runs one operation per lane, in buckets of eight slots (rounds_change.cuh).
template <class S>
__device__ __forceinline__ void change_of_eight(const Table& t, uint32_t flags, Operation<S>& op) {
  using A = Array<S>;
  const Place<S> place(t, op.key);
  const Path path = place.path;
  change_part(op, !path.extra(), [&](Operation<S>& now) __attribute__((always_inline)) {
    change_in_two<S>(slots_of<S>(t), flags, false, now, place.stored, path.bucket, [&](const BucketRounds<S>& rounds, bool hit, Seen) __attribute__((always_inline)) {
      const typename S::Word array = rounds.last();
      const uint32_t entry = now.there && !hit && A::is(array) ? A::entry(array, path.tag) : 0;
      return entry == 0 ? kAll : secondary(t, path.bucket, path.tag, A::kEntries, entry) / rounds.kSlots;
    });
  });
  if (ballot(kAll, op.there && path.extra()) != 0)
    change_part(op, path.extra(), [&](Operation<S>& now) __attribute__((always_inline)) { change_along<Narrow<S>>(t, flags, now); });
}

// change_batch_of_eight runs a batch by change_of_eight. If slots may be pending, it uses
// change_along.
template <class S, class K, class V>
__device__ __forceinline__ void change_batch_of_eight(const ChangeParams<Table>& p) {
  using Tile = PathTile<S, kLanes, sizeof(typename S::Word) == 16 ? kWidePieces : kNarrowPieces>;
  change_strides<S, K, V>(p, [&](Operation<S>& op) __attribute__((always_inline)) {
    if constexpr (S::kTwoStep) change_along<Tile>(p.table, p.changes.flags, op);
    else change_of_eight<S>(p.table, p.changes.flags, op);
    return true;
  });
}

// change_one runs one operation per lane, in kernels that need not be fast.
template <class S>
__device__ __forceinline__ void change_one(const Table& t, Operation<S>& op) {
  change_along<Narrow<S>>(t, 0, op);
}

// Moved are the rules of moves (evict.cuh) for slots of type S.
template <class S>
using Moved = Rules<S, Narrow<S>>;

}  // namespace weft::horton
