// Changes of a table of slots: how an operation changes the slot of its key, and what it reports.
// In a batch, duplicates of a key receive the outcomes that their order requires.
#pragma once

#include "reduce.cuh"
#include "slot.cuh"

namespace weft {

struct Counters {
  uint64_t live;  // number of keys
  uint64_t used;  // number of slots that are not empty
};

enum Outcome : uint32_t {
  kNothing,   // no such key
  kPresent,   // the key was present and is unchanged
  kReplaced,  // the key was present; its value is now the operation's
  kInserted,  // inserted into a slot that was never used
  kRevived,   // inserted into a dead slot
  kDeleted,
  kFull,   // no free slot
  kAgain,  // another thread has changed the slot: retry
  kLater,  // deferred: too many operations compete for the same place
};
__device__ __forceinline__ bool inserted(Outcome o) { return o == kInserted || o == kRevived; }

// Operation holds what a lane passes to change, and the result.
template <class S>
struct Operation {
  bool there;               // whether the lane has an operation
  uint32_t kind;            // Kind
  typename S::Key key;      // the user's key
  typename S::Key value;    // in: the value to write; out: the previous value
  Outcome outcome = kNothing;
};

// act applies an operation to a slot that matches its key. The slot is live or dead; an insertion
// revives a dead slot. In a steady launch (kKeysFixed) a live slot keeps its key, so writers need
// not wait for each other.
template <class S, class V>
__device__ __forceinline__ Outcome act(typename S::Word* slot, typename S::Word word, uint32_t kind,
                                       typename S::Key key, typename S::Key value, uint32_t flags) {
  const bool contend = flags & kContend, steady = flags & kKeysFixed;
  bool live = S::key(word) == key;
  switch (kind) {
    case kPut:
      if (live && contend) return kPresent;
      if (live && steady) {
        store_relaxed(slot, S::pair(key, value));
        return kReplaced;
      }
      if (!S::swap(slot, word, S::pair(key, value))) return kAgain;
      return live ? kReplaced : kRevived;
    case kPutNew:
      if (live) return kPresent;
      return S::swap(slot, word, S::pair(key, value)) ? kRevived : kAgain;
    case kDelete:
      if (!live) return kNothing;
      return S::swap(slot, word, S::dead(key)) ? kDeleted : kAgain;
    default:
      if (!kReduces<S, V> || !reduces(kind)) return live ? kPresent : kNothing;
      if constexpr (kReduces<S, V>) {
        if (!live) return S::swap(slot, word, S::pair(key, value)) ? kRevived : kAgain;
        if (steady && folds(flags)) {
          fold(reinterpret_cast<V*>(slot), kind, flags, V(value));  // the value is first in a slot
          return kReplaced;
        }
        auto sum = [=](typename S::Key held) { return typename S::Key(combine<V>(kind, flags, V(held), V(value))); };
        return S::update(slot, word, sum) ? kReplaced : kAgain;
      }
      return kNothing;
  }
}

// tally adds the outcomes of the lanes of a warp to the counters of a table. All lanes must call
// it.
__device__ __forceinline__ void tally(Counters* c, Outcome o) {
  uint32_t fresh = popcount(ballot(kAll, o == kInserted));
  uint32_t revived = popcount(ballot(kAll, o == kRevived));
  uint32_t deleted = popcount(ballot(kAll, o == kDeleted));
  if (lane_index() != 0 || fresh + revived + deleted == 0) return;
  add_relaxed(&c->live, uint64_t(fresh) + revived - deleted);
  if (fresh != 0) add_relaxed(&c->used, uint64_t(fresh));
}

// tally_block is tally for a whole block, with at most two atomics.
__device__ __forceinline__ void tally_block(Counters* c, Outcome o) {
  uint32_t fresh = count_block(o == kInserted);
  uint32_t revived = count_block(o == kRevived);
  uint32_t deleted = count_block(o == kDeleted);
  if (thread_in_block() != 0 || fresh + revived + deleted == 0) return;
  add_relaxed(&c->live, uint64_t(fresh) + revived - deleted);
  if (fresh != 0) add_relaxed(&c->used, uint64_t(fresh));
}

// ---- duplicates ------------------------------------------------------------
//
// order.cuh finds the winners, the operations that decide the outcome of a key. These functions
// apply the winners.

struct Winners {
  Contest contest;
  const void* vals;
  uint8_t* ok;
};

// winners_last writes the value of the last Put of each listed key. change runs an operation per
// lane.
template <class S, class K, class V, class Change>
__device__ __forceinline__ void winners_last(const Winners& p, Counters* counters, Change change) {
  using Key = typename S::Key;
  auto winners = winners_of<K>(p.contest);
  uint32_t n = load_relaxed(p.contest.contended.count);
  uint32_t lane = lane_index();
  for (uint64_t first = thread_index() - lane; first < n; first += threads_in_grid()) {
    Operation<S> op{false, kPut, 0, 0};
    if (first + lane < n) {
      uint32_t i = p.contest.contended.items[first + lane];
      const auto key = winners.key(i);
      op.there = load_relaxed(winners.find(key)) == i + 1;
      op.key = Key(key);
      if constexpr (S::kHasValue) op.value = Key(Column<V>::read(p.vals, i, p.contest.narrow & kNarrowValues));
    }
    change(op);
    tally(counters, op.outcome);
  }
}

// winners_first assigns an inserted or deleted key to the first operation of the batch on the key.
// It moves the flag to that operation, and for PutNew it stores the value of that operation.
template <class S, class K, class V, class Change>
__device__ __forceinline__ void winners_first(const Winners& p, Change change) {
  using Key = typename S::Key;
  if (load_relaxed(p.contest.contended.count) == 0) return;
  auto winners = winners_of<K>(p.contest);
  uint32_t lane = lane_index();
  for (uint64_t first = thread_index() - lane; first < p.contest.n; first += threads_in_grid()) {
    uint64_t i = first + lane;
    Operation<S> op{false, kPut, 0, 0};
    // A flag moves from a later to an earlier operation on one key. If another thread sets a flag
    // meanwhile, the operation with that flag is the winner of its key. So that flag moves no
    // further, whether or not this thread reads it.
    if (i < p.contest.n && load_relaxed(p.ok + i)) {
      const auto key = winners.key(i);
      uint32_t* w = winners.find(key);
      uint32_t j = w ? load_relaxed(w) - 1 : uint32_t(i);
      if (j < i) {
        store_relaxed(p.ok + i, 0);
        store_relaxed(p.ok + j, 1);
        if constexpr (S::kHasValue) {
          op.there = p.contest.kind == kPutNew;
          op.key = Key(key);
          if (op.there) op.value = Key(Column<V>::read(p.vals, j, p.contest.narrow & kNarrowValues));
        }
      }
    }
    if constexpr (S::kHasValue) change(op);
  }
}

}  // namespace weft
