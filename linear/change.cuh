// Batches of changes in the kernels of package linear.
#pragma once

#include "layout.cuh"
#include "tuning.cuh"
#include "weft/linear_change.cuh"

namespace weft::linear {

// Progress is the result of one lane's attempt at an operation in a sector.
enum Progress {
  kDecided,  // it is done
  kOnward,   // the sector is full, and does not have the key
  kHard,     // needs a tile: a dead slot is free, one is pending, or another lane was faster
};

// enter puts a pair into the first slot, from an empty one on, that is still free. The
// compare-and-swap on each earlier slot returns the key that has taken it. In an empty table many
// lanes insert into one sector, and a lane that reads it again after each lost swap loses again.
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

// attempt tries an operation in a sector of its path. The sectors before are full and do not have
// its key.
template <class S, class V>
__device__ __forceinline__ Progress attempt(const Sector<S>& sector, uint32_t flags, Operation<S>& op) {
  using Word = typename S::Word;
  constexpr bool reduces = kReduces<S, V>;  // all of the launch
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

// alone does what a lane can do of an operation by itself, in the home sector of its key: where
// tables lie in cache, instructions cost more than reads. op.there stays true if the tile must do
// the operation.
template <class S, class V = void>
__device__ __forceinline__ void alone(const Table& t, uint32_t flags, Operation<S>& op) {
  if (op.there && attempt<S, V>(Sector<S>(t, {locate<S>(t, op.key)}, 0), flags, op) == kDecided) op.there = false;
}

// change_all is change for batches that mix operations or combine values. In cached tables, lanes
// try first. The host then chooses wide tiles, since what lanes leave over lies far from home. The
// rest is dealt out to the tiles evenly.
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

// change_one runs an operation per lane in a kernel that need not be fast.
template <class S>
__device__ __forceinline__ void change_one(const Table& t, Operation<S>& op) {
  change<S, kNarrowLanes, kNarrowPieces>(t, 0, op);
}

}  // namespace weft::linear
