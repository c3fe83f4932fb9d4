// What the kernels of package linear do with batches of changes.
#pragma once

#include "layout.cuh"
#include "tuning.cuh"
#include "weft/linear_change.cuh"

namespace weft::linear {

// alone does what a lane can do of an operation by itself, along the path of its
// key: where tables lie in cache, instructions cost more than reads. It leaves to
// the tile, by op.there, what takes a dead slot, waits for a pending one, or has
// read its share of sectors.
template <class S, class V = void>
__device__ __forceinline__ void alone(const Table& t, uint32_t flags, Operation<S>& op) {
  using Word = typename S::Word;
  using Key = typename S::Key;
  constexpr bool reduces = kReduces<S, V>;  // all of the launch
  const bool adds = reduces || inserts<S, V>(op.kind), revives = !reduces && !(flags & kReuse);
  const Key key = stored<S>(op.key);
  const Path path{locate<S>(t, op.key)};
  for (uint32_t ordinal = 0; op.there && ordinal < kAlone; ordinal++) {
    Sector<S> sector(t, path, ordinal);
    int match = -1, empty = -1;
    bool dead = false, pending = false;
    Word word = S::pair(S::kEmpty, S::kEmpty);
    sector.each([&](int i, Word w) {
      if (S::key(w) == key || (revives && S::is_dead(w, key))) match = i, word = w;
      if (S::key(w) == S::kEmpty) empty = i;
      dead |= S::key(w) == S::kDead;
      pending |= S::key(w) == S::kPending;
    });
    Outcome done = kAgain;
    if (match >= 0 && (S::key(word) == key || !pending)) {
      done = act<S, V>(sector.at(match), word, op.kind, key, op.value, flags);
    } else if (match >= 0 || pending || (adds && dead)) {
      return;
    } else if (empty >= 0) {
      done = !adds ? kNothing : S::swap(sector.at(empty), word, S::pair(key, op.value)) ? kInserted : kAgain;
    } else {
      continue;
    }
    if (done == kAgain) return;
    op.there = false, op.outcome = done;
    if constexpr (S::kHasValue && !reduces) op.value = S::value(word);
  }
}

// change_all is change, by lanes first where that is faster: the host then chooses
// wide tiles, since what lanes leave over lies far from home. It is dealt out to the
// tiles evenly.
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
  change_all<S, Lanes, Pieces>(p.table, p.changes.flags, op);
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
