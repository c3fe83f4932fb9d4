// Kernels of package slab for batches of changes.
#pragma once

#include "layout.cuh"
#include "weft/slab_change.cuh"

namespace weft::slab {

// crowded reports whether at least kMinContending lanes of the warp append to this lane's bucket.
// Then lanes of other warps probably append to it, too.
template <class S>
__device__ __forceinline__ bool crowded(const Table& t, const Operation<S>& op) {
  uint32_t bucket = op.there ? locate<S>(t, op.key) : kAll - lane_index();  // distinct if idle
  return popcount(match_any(kAll, bucket)) >= uint32_t(kMinContending);
}

template <class S, class K, class V, bool Multi>
__device__ __forceinline__ void change_batch(const ChangeParams<Table>& p) {
  const Changes& c = p.changes;
  uint32_t i = uint32_t(thread_index());
  Operation<S> op = operation<S, K, V>(c, i);
  uint32_t steady = c.kinds == nullptr && c.kind == kPut ? kKeysFixed : 0;
  if constexpr (Multi) {
    if (steady && (c.flags & kContend) && crowded<S>(p.table, op)) op.there = false, op.outcome = kLater;
  }
  uint32_t removed = 0;
  change<S, Multi>(p.table, c.flags | steady, op, nullptr, &removed);
  outcome<S, V>(c, i, op);
  if constexpr (Multi)
    if (op.there && c.removed) store_once(c.removed + i, removed);
  // A multimap lists deferred pairs in place of duplicates.
  list(c, i, op, Multi && steady ? op.outcome == kLater : contends(op));
  tally_block(p.table.counters, op.outcome);
  // tally_block has counted one pair for each DELETEALL that found any pair.
  if (Multi && removed > 1) add_relaxed(&p.table.counters->live, 1 - uint64_t(removed));
}

// beyond returns the slab at which to continue after a full slab. It attaches a new slab if needed,
// and returns kNoUnit if it finds no memory. A whole warp calls it for one slab.
__device__ __forceinline__ uint32_t beyond(const Table& t, Resident& resident, uint32_t bucket, Word128* slab, uint32_t at) {
  Link link = {load_relaxed(&link_of(slab)->tail), load_relaxed(&link_of(slab)->next)};
  uint32_t next = shuffle(kAll, at == kNoUnit && link.tail != kNoUnit ? link.tail : link.next, 0);
  if (next != kNoUnit) return next;
  bool one = lane_index() == 0;
  next = attach(t, resident, one ? link_of(slab) : nullptr);
  if (one && next != kNoUnit) store_relaxed(&link_of(t.slab(bucket, kNoUnit))->tail, next);
  return shuffle(kAll, next, 0);
}

// append adds the listed pairs of a batch to a multimap. For these pairs, too many threads
// contended for one place. A few warps run append, as in the paper. A whole warp works on one
// bucket at a time. It fills as many slots of a slab at once as it has pairs for the bucket.
template <class S, class K, class V>
__device__ __forceinline__ void append(const ChangeParams<Table>& p) {
  using Key = typename S::Key;
  using Word = typename S::Word;
  const Table& t = p.table;
  const Changes& c = p.changes;
  Resident resident;
  uint32_t n = load_relaxed(c.contended.count), lane = lane_index();
  for (uint64_t first = thread_index() - lane; first < n; first += threads_in_grid()) {
    uint32_t i = first + lane < n ? c.contended.items[first + lane] : 0;
    Key key = Key(static_cast<const K*>(c.keys)[i]), value = Key(static_cast<const V*>(c.vals)[i]);
    uint32_t home = locate<S>(t, key);
    key = stored<S>(key);
    Outcome outcome = kNothing;
    uint32_t queue = ballot(kAll, first + lane < n);
    while (queue != 0) {
      uint32_t bucket = shuffle(kAll, home, lowest(queue)), at = kNoUnit;
      uint32_t crowd = ballot(kAll, home == bucket) & queue;
      queue ^= crowd;
      while (crowd != 0) {
        Word128* slab = t.slab(bucket, at);
        Word* slot = reinterpret_cast<Word*>(slab) + lane;
        bool empty = lane < kSlots<S> && S::key(load_relaxed(slot)) == S::kEmpty;
        uint32_t frees = ballot(kAll, empty);
        if (frees == 0) {
          at = beyond(t, resident, bucket, slab, at);
          if (at == kNoUnit) {
            if (crowd >> lane & 1) outcome = kFull;
            crowd = 0;
          }
          continue;
        }
        // The first lanes of the crowd take the first free slots.
        uint32_t place = popcount(frees & ((1u << lane) - 1));
        bool takes = empty && place < popcount(crowd);
        uint32_t from = takes ? lowest(crowd ^ first_bits(crowd, place)) : lane;
        Key k = shuffle(kAll, key, from), v = shuffle(kAll, value, from);
        uint32_t slots = ballot(kAll, takes && S::swap(slot, S::pair(S::kEmpty, S::kEmpty), S::pair(k, v)));
        place = popcount(crowd & ((1u << lane) - 1));
        bool served = (crowd >> lane & 1) && place < popcount(frees) && (slots >> lowest(frees ^ first_bits(frees, place)) & 1);
        if (served) outcome = kInserted;
        crowd ^= ballot(kAll, served);
      }
    }
    record(c.failed, c.first + i, outcome == kFull);
    tally(t.counters, outcome);
  }
}

// change_one writes the values of winners. Their keys are present exactly once, so change_one
// treats the table as a map. kReuse restricts the search to live slots. In a multimap, a dead slot
// that remembers the key may come before the live slot.
template <class S, class T>
__device__ __forceinline__ void change_one(const T& t, Operation<S>& op) {
  change<S, false>(t, kReuse, op);
}

}  // namespace weft::slab
