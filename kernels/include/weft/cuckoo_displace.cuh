// Insertions into full buckets of package cuckoo in one step. A key moves from one of the two full
// buckets to its other bucket, and the new key takes its slot. Each lane inserts a key by itself,
// and all lanes of its warp read the buckets (rounds.cuh). So these insertions run as a separate
// launch of few instructions. This launch comes between the launch that moves nothing and the
// launch that searches (evict.cuh). It handles tables with two buckets of eight slots per key. It
// leaves insertions that need more than one step, or that find locks taken for long, to the next
// launch.
#pragma once

#include "cuckoo_evict.cuh"
#include "rounds_change.cuh"

namespace weft::cuckoo {

// Displacer is a warp with lanes that insert keys into full buckets. All lanes must call its
// methods.
template <class Slots>
struct Displacer {
  using S = Slots;
  using Word = typename S::Word;
  using Key = typename S::Key;
  static constexpr uint32_t kSlots = 8;

  const Table& t;
  int32_t fresh = 0;  // slots in use now that were never used before

  __device__ __forceinline__ explicit Displacer(const Table& t) : t(t) {}

  // insert inserts an absent key under its lock, in the lanes with `open`. kFull means that the key
  // is left to the next launch. This includes a key that is present by now, or that has a free slot
  // by now. kAgain means that a lock was taken.
  __device__ __forceinline__ Outcome insert(bool open, Path path, Word pair) {
    const Key stored = S::key(pair);
    bool runs = lacks_key(open, path.first, stored);
    runs = lacks_key(runs, path.second, stored);
    Outcome done = kFull;
#pragma unroll 1
    for (uint32_t i = 0; i < 2 * kSlots && ballot(kAll, runs) != 0; i++) {
      const uint32_t bucket = i / kSlots == 0 ? path.first : path.second;
      // Do not always start at the first slot. That slot would hold the latest inserted key, and
      // the buckets of that key are full.
      Word* const from = slots_of<S>(t) + uint64_t(bucket) * kSlots + (i + uint32_t(stored)) % kSlots;
      Word word = pair;
      if (runs) word = load_relaxed(from);
      const bool is_key = runs && S::key(word) < S::kNone;
      Path of = path;
      if (is_key) of = path_of<S>(t, S::key(word));
      const uint32_t to = of.first == bucket ? of.second : of.first;
      const Seen seen = read_bucket(is_key && !of.extra() && to != bucket ? to : kAll);
      if (seen.frees() == 0) continue;
      uint32_t* const lock = lock_of(t, lock_bucket(of));
      const bool other = lock != lock_of(t, lock_bucket(path));
      if (other && !try_lock(lock)) {
        done = kAgain;
        continue;
      }
      const Word now = load_relaxed(from);  // read under the lock of its key
      Operation<S> moves{true, kPutNew, 0, S::value(now)};
      const bool still = S::key(now) == S::key(word);
      const Outcome copied = still ? insert_first_free<S>(slots_of<S>(t) + uint64_t(to) * kSlots, seen, S::key(now), 0, moves) : kFull;
      if (inserted(copied)) {
        fresh += copied == kInserted;
        fence();  // a thread that finds the key gone also finds its lock taken
        store_relaxed(from, pair);
        runs = false, done = kRevived;
      }
      if (other) unlock(lock);
    }
    return done;
  }

 private:
  // read_bucket returns what a lane finds in a bucket: nothing if `bucket` is kAll. Dead slots
  // count as free.
  __device__ __forceinline__ Seen read_bucket(uint32_t bucket) const {
    BucketRounds<S, true> rounds;
    rounds.read(slots_of<S>(t), bucket, 0);
    const uint32_t bits = rounds.slots([](Word w, Key) { return Seen::of<S>(w, S::kNone, true); });
    return {bucket == kAll ? 0 : bits};
  }
  // lacks_key reports whether a bucket is full and does not contain the lane's key. It returns
  // false for lanes without `open`.
  __device__ __forceinline__ bool lacks_key(bool open, uint32_t bucket, Key stored) const {
    BucketRounds<S> rounds;
    rounds.read(slots_of<S>(t), open ? bucket : kAll, stored);
    const uint32_t others = rounds.slots([](Word w, Key key) { return uint32_t(S::key(w) == key || S::key(w) >= S::kNone); });
    return open && others == 0;
  }
};

template <class S, class K, class V>
__device__ __forceinline__ void displace_batch(const EvictParams<Table>& p) {
  Displacer<S> displacer{p.table};
  step_batch<S, K, V>(
      p, displacer.fresh, [&](typename S::Key key) { return lock_bucket(path_of<S>(p.table, key)); },
      [&](bool has, const Operation<S>& op) __attribute__((always_inline)) {
        const Path path = path_of<S>(p.table, op.key);
        const Outcome done = displacer.insert(has && !path.extra(), path, S::pair(stored<S>(op.key), op.value));
        return path.extra() ? kFull : done;
      });
}

}  // namespace weft::cuckoo
