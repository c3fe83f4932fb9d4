// Batches on tables that lie in the L2 cache. There, instructions and waits for the slowest lane
// cost more than reads. Each lane searches for its key by itself, one sector at a time. Undecided
// operations wait until the warp has 32 of them. Then each of them continues with one more sector.
// So no lane is idle while other lanes read many sectors. Tiles run the last operations, and the
// operations that a lane cannot decide.
#pragma once

#include "change.cuh"
#include "weft/leftover.cuh"
#include "weft/linear_find.cuh"

namespace weft::linear {

// kSteps is the maximum number of sectors that a lane reads for an operation.
constexpr uint32_t kSteps = 16;

// strides runs a batch of n operations. Its warps stride over the batch. begin(i, key, value) reads
// operation i, if it exists. step(sector, there, i, key, value) tries the operation in one sector
// of its path, and returns its Progress. finish(there, i, key, value) runs the operation by tiles.
template <class S, bool HasValue, class Begin, class Step, class Finish>
__device__ __forceinline__ void strides(const Table& t, uint64_t n, Begin begin, Step step, Finish finish) {
  using Key = typename S::Key;
  using Left = DeferredOps<Key, HasValue>;
  __shared__ typename Left::Place places[kBlock / kWarp];
  Left left(places);
  const uint32_t stride = uint32_t(threads_in_grid());
  uint64_t i = thread_index(), first = i - lane_index();
  Key key = 0, value = 0, next_key = 0, next_value = 0;
  begin(i, next_key, next_value);
  while (first < n || left.n != 0) {
    // Start new operations, unless 32 or more are waiting.
    const bool fresh = first < n && left.n < kWarp;
    uint32_t number = 0, ordinal = 0;
    bool there = false;
    if (fresh) {
      there = i < n, number = uint32_t(i), key = next_key, value = next_value;
      first += stride, i += stride;
      begin(i, next_key, next_value);
    } else {
      bool few = left.n < kWarp;
      there = left.template pop<kWideLanes>(number, ordinal, key, value);
      if (few || ballot(kAll, there && ordinal == kSteps) != 0) {
        finish(there, number, key, value);
        continue;
      }
    }
    const Path path{locate<S>(t, key)};
    Progress progress = step(Sector<S>(typename Sector<S>::ByTwoLanes{}, t, path, ordinal), there, number, key, value);
    if (++ordinal == path.steps(t, 1) || progress == kHard) ordinal = kSteps;
    left.push(there && progress != kDecided, number, ordinal, key, value);
  }
}

// peek looks for a key in a sector.
template <class S>
__device__ __forceinline__ Progress peek(const Sector<S>& sector, typename S::Key key, typename S::Key& value, bool& hit) {
  bool empty = false, pending = false;
  sector.each([&](int, typename S::Word w) {
    if (S::key(w) == key) hit = true, value = S::value(w);
    empty |= S::key(w) == S::kEmpty;
    pending |= S::kTwoStep && S::key(w) == S::kPending;
  });
  return hit ? kDecided : pending ? kHard : empty ? kDecided : kOnward;
}

template <class S, class K, class V>
__device__ __forceinline__ void get_cached(const GetParams<Table>& p) {
  using Key = typename S::Key;
  const Lookup& l = p.lookup;
  uint32_t hits = 0;  // number of hits in the warp
  strides<S, false>(
      p.table, l.n, [&](uint64_t i, Key& key, Key&) { key = i < l.n ? Key(Column<K>::read_once(l.keys, i, l.narrow & kNarrowKeys)) : Key(0); },
      [&](const Sector<S>& sector, bool there, uint32_t i, Key key, Key) {
        Key value = 0;
        bool hit = false;
        Progress progress = peek<S>(sector, stored<S>(key), value, hit);
        tell<S, V>(l, Query<S>{i, there && progress == kDecided, key}, hit, value);
        if (l.hits) hits += popcount(ballot(kAll, there && hit));
        return progress;
      },
      [&](bool there, uint32_t i, Key key, Key value) {
        bool hit = find<S, kWideLanes, kWidePieces>(p.table, there, locate<S>(p.table, key), stored<S>(key), value);
        tell<S, V>(l, Query<S>{i, there, key}, hit, value);
        if (l.hits) hits += popcount(ballot(kAll, there && hit));
      });
  if (l.hits && lane_index() == 0 && hits != 0) add_relaxed(l.hits, uint64_t(hits));
}

// change_cached runs a batch of operations of one kind.
template <class S, class K, class V>
__device__ __forceinline__ void change_cached(const ChangeParams<Table>& p) {
  using Key = typename S::Key;
  const Changes& c = p.changes;
  uint32_t fresh = 0, revived = 0, deleted = 0;  // counts in the warp
  auto finish = [&](uint32_t i, const Operation<S>& op) {
    outcome<S, V>(c, i, op);
    list(c, i, op, contends(op));
    fresh += popcount(ballot(kAll, op.outcome == kInserted));
    revived += popcount(ballot(kAll, op.outcome == kRevived));
    deleted += popcount(ballot(kAll, op.outcome == kDeleted));
  };
  strides<S, S::kHasValue>(
      p.table, c.n,
      [&](uint64_t i, Key& key, Key& value) {
        Operation<S> op = operation<S, K, V>(c, uint32_t(i));
        key = op.key, value = op.value;
      },
      [&](const Sector<S>& sector, bool there, uint32_t i, Key key, Key value) {
        Operation<S> op{there, c.kind, key, value};
        Progress progress = kDecided;
        if (there) progress = attempt<S, void>(sector, c.flags, op);
        op.there = there && progress == kDecided;
        finish(i, op);
        return progress;
      },
      [&](bool there, uint32_t i, Key key, Key value) {
        Operation<S> op{there, c.kind, key, value};
        change<S, kWideLanes, kWidePieces>(p.table, c.flags, op);
        finish(i, op);
      });
  if (lane_index() != 0 || fresh + revived + deleted == 0) return;
  add_relaxed(&p.table.counters->live, uint64_t(fresh) + revived - deleted);
  if (fresh != 0) add_relaxed(&p.table.counters->used, uint64_t(fresh));
}

}  // namespace weft::linear
