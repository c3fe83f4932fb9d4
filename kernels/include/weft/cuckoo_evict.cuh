// Evictions of package cuckoo, which move keys to their other buckets (evict.cuh).
//
// In the first launch of a change, a key enters the first free slot of its path. With load
// balancing, two insertions of one key might choose different buckets, so each takes the lock of
// the key.
#pragma once

#include "cuckoo_table.cuh"
#include "evict.cuh"

namespace weft::cuckoo {

// lock_bucket returns the bucket that determines the lock of a key.
__device__ __forceinline__ uint32_t lock_bucket(Path path) { return path.extra() ? path.second : path.first; }

// try_by_lock runs one operation per lane by change(op). Operations that insert run under the lock
// of their key. try_by_lock reports whether the operation is done. If not, the lock was taken, and
// the outcome is kAgain. All lanes of the warp must call it. Lanes work for each other, so the
// warp's syncs order their accesses with the locks that other lanes hold.
template <class S, class V = void, class F>
__device__ __forceinline__ bool try_by_lock(const Table& t, Operation<S>& op, F change) {
  const bool needs = inserts<S, V>(op.kind);
  uint32_t* const lock = lock_of(t, lock_bucket(path_of<S>(t, op.key)));
  const bool run = op.there && (!needs || try_lock(lock));
  if (ballot(kAll, run) == 0) pause(kPause);
  sync_warp();
  Operation<S> now = op;
  now.there = run, now.outcome = kNothing;
  change(now);
  sync_warp();
  if (run && needs) unlock(lock);
  const bool done = run || !op.there;
  op.outcome = done ? now.outcome : kAgain;
  if (run) op.value = now.value;
  return done;
}

// change_by_locks repeats try_by_lock until all operations are done.
template <class S, class V = void, class F>
__device__ __forceinline__ void change_by_locks(const Table& t, Operation<S>& op, F change) {
  Operation<S> left = op;
  while (ballot(kAll, left.there) != 0) {
    const bool done = try_by_lock<S, V>(t, left, change) && left.there;
    if (done) op.outcome = left.outcome, op.value = left.value, left.there = false;
  }
}

// Rules are the Rules of evict.cuh. Tiles find every free slot in the buckets of a key. So a lane
// by itself can only evict another key from one of these buckets and, in the end, use the stash.
template <class Slots, class Tile>
struct Rules {
  using S = Slots;
  using PathTile = Tile;
  using Table = cuckoo::Table;
  using Path = cuckoo::Path;
  using Word = typename S::Word;
  static constexpr uint32_t kLevels = 1, kMovesPrimaryLevel = kAll;
  static constexpr bool kClearsSlots = false;  // paths end at empty slots, so moves leave dead ones

  __device__ static __forceinline__ uint32_t first(Path path) { return path.first; }
  __device__ static __forceinline__ uint32_t lock_bucket(Path path) { return cuckoo::lock_bucket(path); }
  __device__ static __forceinline__ uint32_t roots(const Table& t) { return t.functions; }
  __device__ static __forceinline__ uint32_t root(const Table& t, Path path, uint32_t, uint32_t i, uint32_t& slots) {
    slots = 1u << t.shift;
    return path.bucket(t, i) << t.shift;
  }
  __device__ static __forceinline__ Path path_in(const Table& t, Word word, uint32_t) { return path_of<S>(t, S::key(word)); }
  __device__ static __forceinline__ uint32_t others(const Table& t) { return t.functions; }
  __device__ static __forceinline__ uint32_t other_slots(const Table& t) { return 1u << t.shift; }
  __device__ static __forceinline__ uint32_t other(const Table& t, Path path, uint32_t number, uint32_t i, bool) {
    const uint32_t bucket = path.extra() ? number >> t.shift : path.bucket(t, i);
    return bucket == number >> t.shift ? kAll : bucket << t.shift;
  }
  template <class Moves>
  __device__ static __forceinline__ Outcome give_way(Moves& m, Path path, uint32_t number, Word pair) {
    const Word word = load_relaxed(m.slot(number));
#pragma unroll 1
    for (uint32_t i = 0; i < others(m.t); i++) {
      const uint32_t first = other(m.t, path, number, i, false);
      if (first == kAll || m.enter(first, other_slots(m.t), word) == kAll) continue;
      m.replace(number, pair);
      return kRevived;
    }
    return kFull;
  }
  __device__ static __forceinline__ bool has_capacity(const Table&) { return true; }
  __device__ static __forceinline__ bool may_leave(const Table&, Path, uint32_t) { return true; }
  __device__ static __forceinline__ bool shares(Path, Path) { return false; }
  __device__ static __forceinline__ void moved(const Table&, Path, uint32_t) {}

  template <class Mover>
  __device__ static __forceinline__ Outcome alone(Mover& m, Path path, const Operation<S>& op, uint32_t level, bool) {
    if (path.extra()) return kFull;
    const Word pair = S::pair(stored<S>(op.key), op.value);
    if (level == kLevels) return stash(m.t, path, pair);
    bool busy = false;
    for (uint32_t i = 0; i < m.t.functions; i++) {
      const Outcome done = m.displace(path.bucket(m.t, i) << m.t.shift, 1u << m.t.shift, pair);
      if (done == kRevived) return done;
      busy |= done == kAgain;
    }
    return busy ? kAgain : kFull;
  }

 private:
  // stash puts an absent key into its line of the stash.
  __device__ static __forceinline__ Outcome stash(const Table& t, Path path, Word pair) {
    constexpr uint32_t slots = kLineBytes / sizeof(Word);
    if (t.stash == 0) return kFull;
    auto* line = slots_of<S>(t) + uint64_t(path.stash_line(t)) * slots;
#pragma unroll 1
    for (uint32_t i = 0; i < slots; i++) {
      const Word word = load_relaxed(line + i);
      if (is_free<S>(word) && S::swap(line + i, word, pair)) return S::key(word) == S::kEmpty ? kInserted : kRevived;
    }
    return kFull;
  }
};

}  // namespace weft::cuckoo
