// Kernels of maps of package linear whose operations combine values.
#include "change.cuh"
#include "weft/entry.cuh"
#include "weft/gather.cuh"

namespace weft::linear {

// alone does what a lane can do of a reduction by itself, along the path of its
// key: where tables lie in cache, instructions cost more than reads. Dead and pending
// slots are left to the tile, and so is who has read many sectors.
template <class S, class V>
__device__ __forceinline__ void alone(const Table& t, uint32_t flags, Operation<S>& op) {
  using Word = typename S::Word;
  using Key = typename S::Key;
  constexpr int per_piece = 16 / sizeof(Word);
  Key key = stored<S>(op.key);
  Path path{locate<S>(t, op.key)};
  for (uint32_t ordinal = 0; op.there && ordinal < kAlone; ordinal++) {
    Word128* sector = t.lines + path.piece(t, ordinal, 0);
    typename Tile<S, 1, 2>::Piece piece[2];
    piece[0].whole = load_relaxed(sector), piece[1].whole = load_relaxed(sector + 1);
    int match = -1, empty = -1;
    bool other = false;
#pragma unroll
    for (int i = 2 * per_piece - 1; i >= 0; i--) {
      Key held = S::key(piece[i / per_piece].slots[i % per_piece]);
      if (held == key) match = i;
      if (held == S::kEmpty) empty = i;
      other |= held == S::kDead || held == S::kPending;
    }
    Word* slots = reinterpret_cast<Word*>(sector);
    if (match >= 0) {
      fold(reinterpret_cast<V*>(slots + match), op.kind, flags, V(op.value));
      op.outcome = kReplaced;
    } else if (empty >= 0 && !other && S::swap(slots + empty, S::pair(S::kEmpty, S::kEmpty), S::pair(key, op.value))) {
      op.outcome = kInserted;
    }
    if (op.outcome != kNothing) op.there = false;
    else if (other || empty >= 0) return;
  }
}

// Reduce does a reduction per lane, in a launch of nothing else.
template <class S, class V, int Lanes, int Pieces>
struct Reduce {
  const ChangeParams<Table>& p;

  __device__ __forceinline__ void operator()(Operation<S>& op) const {
    const uint32_t flags = p.changes.flags;
    bool there = op.there;
    if ((flags & kCached) && folds(flags)) alone<S, V>(p.table, flags, op);
    if (ballot(kAll, op.there) != 0) change<S, Lanes, Pieces, V>(p.table, flags | kSteady, op);
    op.there = there;
  }
};

}  // namespace weft::linear

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::linear;
WEFT_WIDTHS;

WEFT_KERNEL(linear_reduce_mixed, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_mixed<S, K, V>(p.changes, p.table.counters, Reduce<S, V, kNarrowLanes, kNarrowPieces>{p});
}
WEFT_KERNEL(linear_reduce_mixed_wide, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_mixed<S, K, V>(p.changes, p.table.counters, Reduce<S, V, kWideLanes, kWidePieces>{p});
}
WEFT_KERNEL(linear_reduce_rows, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_rows<S, K, V>(p.changes, p.table.counters, Reduce<S, V, kNarrowLanes, kNarrowPieces>{p});
}
WEFT_KERNEL(linear_reduce_rows_wide, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_rows<S, K, V>(p.changes, p.table.counters, Reduce<S, V, kWideLanes, kWidePieces>{p});
}
