// Batches of changes in the kernels of package linear.
#pragma once

#include "layout.cuh"
#include "tuning.cuh"
#include "weft/linear_change.cuh"

namespace weft::linear {

// Progress is the result of one lane's attempt at an operation in a sector.
enum Progress {
  kDecided,  // the operation is done
  kOnward,   // the sector is full, and does not have the key
  kHard,     // needs a tile: a dead slot is free, a slot is pending, or another lane was faster
};

// enter puts a pair into a free slot of a sector. It begins at `slot`, which was empty when the
// sector was read. If another lane has taken a slot, the compare-and-swap returns the key there,
// and enter tries the next slot. It does not read the sector again. In an empty table, many lanes
// insert into one sector. A lane that reads it again after each failed swap fails again.
template <class S>
__device__ __forceinline__ Progress enter(const Sector<S>& sector, int slot, typename S::Key key, typename S::Key value) {
#pragma unroll 1
  for (; slot < Sector<S>::kSlots; slot++) {
    typename S::Key held = S::enter(sector.at(slot), S::pair(key, value));
    if (held == S::kEmpty) return kDecided;
    if (held == key || held >= S::kPending) return kHard;
  }
  return kOnward;
}

// attempt tries an operation in one sector of its path. The earlier sectors are full and do not
// have its key.
template <class S, class V>
__device__ __forceinline__ Progress attempt(const Sector<S>& sector, uint32_t flags, Operation<S>& op) {
  using Word = typename S::Word;
  constexpr bool reduces = kReduces<S, V>;  // a launch that only reduces
  const bool adds = reduces || inserts<S, V>(op.kind), revives = !reduces && !(flags & kReuse);
  const typename S::Key key = stored<S>(op.key);
  int match = -1, empty = -1;
  bool dead = false, pending = false;
  Word word = S::pair(S::kEmpty, S::kEmpty);
  sector.each([&](int i, Word w) {
    if (S::key(w) == key || (revives && S::is_dead(w, key))) match = i, word = w;
    if (S::key(w) == S::kEmpty) empty = i;
    dead |= S::key(w) == S::kDead;
    pending |= S::kTwoStep && S::key(w) == S::kPending;
  });
  Outcome done = kAgain;
  if (match >= 0 && (S::key(word) == key || !pending)) {
    done = act<S, V>(sector.at(match), word, op.kind, key, op.value, flags);
  } else if (match >= 0 || pending || (adds && dead)) {
    return kHard;
  } else if (empty < 0) {
    return kOnward;
  } else if (!adds) {
    done = kNothing;
  } else {
    Progress entered = enter<S>(sector, empty, key, op.value);
    if (entered != kDecided) return entered;
    done = kInserted;
  }
  if (done == kAgain) return kHard;
  op.outcome = done;
  if constexpr (S::kHasValue && !reduces) op.value = S::value(word);
  return kDecided;
}

// alone tries to run an operation in one lane, in the home sector of its key. In cached tables,
// instructions cost more than reads. op.there stays true if a tile must run the operation.
template <class S, class V = void>
__device__ __forceinline__ void alone(const Table& t, uint32_t flags, Operation<S>& op) {
  if (op.there && attempt<S, V>(Sector<S>(t, {locate<S>(t, op.key)}, 0), flags, op) == kDecided) op.there = false;
}

// change_all is change for batches that mix kinds of operations or combine values. In cached
// tables, single lanes try first. The host then chooses wide tiles, because the remaining
// operations end far from the home sectors of their keys. change_all distributes the remaining
// operations evenly over the tiles.
template <class S, int Lanes, int Pieces, class V = void>
__device__ __forceinline__ void change_all(const Table& t, uint32_t flags, Operation<S>& op) {
  const bool there = op.there, cached = Lanes == kWideLanes && (flags & kCached);
  Operation<S> dealt = op;
  uint32_t to = 0;
  if (cached) {
    alone<S, V>(t, flags, op);
    if (ballot(kAll, op.there) == 0) {
      op.there = there;
      return;
    }
    Deal<Lanes> deal(op.there);
    dealt = {deal.from < kWarp, shuffle(kAll, op.kind, deal.from), shuffle(kAll, op.key, deal.from),
             shuffle(kAll, op.value, deal.from)};
    to = deal.to;
  }
  change<S, Lanes, Pieces, V>(t, flags, dealt);
  if (cached) {
    uint32_t outcome = shuffle(kAll, uint32_t(dealt.outcome), to);
    auto value = shuffle(kAll, dealt.value, to);
    if (op.there) op.outcome = Outcome(outcome), op.value = value;
  } else if (there) {
    op.outcome = dealt.outcome, op.value = dealt.value;
  }
  op.there = there;
}

template <class S, class K, class V, int Lanes, int Pieces>
__device__ __forceinline__ void change_batch(const ChangeParams<Table>& p) {
  uint32_t i = uint32_t(thread_index());
  Operation<S> op = operation<S, K, V>(p.changes, i);
  change<S, Lanes, Pieces>(p.table, p.changes.flags, op);
  outcome<S, V>(p.changes, i, op);
  list(p.changes, i, op, contends(op));
  tally_block(p.table.counters, op.outcome);
}

// change_one runs one operation per lane, in kernels that need not be fast.
template <class S>
__device__ __forceinline__ void change_one(const Table& t, Operation<S>& op) {
  change<S, kNarrowLanes, kNarrowPieces>(t, 0, op);
}

}  // namespace weft::linear
