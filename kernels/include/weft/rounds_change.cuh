// Changes in two buckets of eight slots, in the launch that moves no keys. Keys are searched as in
// rounds.cuh, and each lane changes the slot for its own operation.
//
// The argument of path.cuh for one slot per key holds here, too: within the launch free slots only
// disappear, and a key enters at the first free slot of its buckets, or of the bucket chosen for
// it. A lane that finds a slot taken goes on to the next that was free when it read the bucket. No
// slot before that can have received its key since, except those that it lost and checked.
#pragma once

#include "moves.cuh"
#include "rounds.cuh"

namespace weft {

// Seen is what a lane has read of the slots of a bucket, a bit for each.
struct Seen {
  static constexpr uint32_t kFree = 8, kEmpty = 16, kByte = 0xff;
  uint32_t bits = 0;

  template <class S>
  __device__ static __forceinline__ uint32_t of(typename S::Word w, typename S::Key key, bool reuse) {
    const bool empty = S::key(w) == S::kEmpty, free = empty || (reuse && S::key(w) == S::kDead);
    return uint32_t(S::key(w) == key) | uint32_t(free) << kFree | uint32_t(empty) << kEmpty;
  }
  __device__ __forceinline__ uint32_t matches() const { return bits & kByte; }
  __device__ __forceinline__ uint32_t frees() const { return bits >> kFree & kByte; }
  __device__ __forceinline__ uint32_t empties() const { return bits >> kEmpty & kByte; }
};

// change_found runs an operation of a lane on the slot that has its key.
template <class S, class V>
__device__ __forceinline__ Outcome change_found(typename S::Word* slot, typename S::Key stored, typename S::Key held,
                                                uint32_t flags, Operation<S>& op) {
  typename S::Word word = S::pair(stored, held);
#pragma unroll 1
  while (true) {
    const Outcome done = act<S, V>(slot, word, op.kind, stored, op.value, flags);
    if (done != kAgain) {
      op.value = S::value(word);
      return done;
    }
    word = load_relaxed(slot);
    // Another operation has deleted the key, in a launch of deletes.
    if (S::key(word) != stored) return kNothing;
  }
}

// enter_first puts an operation's pair into the first of those slots of a bucket that is still
// free. If its key has come to one meanwhile, the operation is done there.
template <class S>
__device__ __forceinline__ Outcome enter_first(typename S::Word* bucket, Seen seen, typename S::Key stored, uint32_t flags,
                                               Operation<S>& op) {
#pragma unroll 1
  for (uint32_t frees = seen.frees(); frees != 0; frees &= frees - 1) {
    typename S::Word* const slot = bucket + lowest(frees);
    typename S::Word word = S::pair(S::kEmpty, S::kEmpty);
    const bool empty = seen.empties() & frees & -frees;
    if (!empty) word = load_relaxed(slot);  // dead, and remembers a key
    if ((empty || S::key(word) == S::kDead) && S::swap(slot, word, S::pair(stored, op.value))) return empty ? kInserted : kRevived;
    word = load_relaxed(slot);
    if (S::key(word) == stored) return change_found<S, void>(slot, stored, S::value(word), flags, op);
  }
  return kFull;
}

// change_in_two runs an operation per lane that is there, given the stored key and its first
// bucket. second(rounds, hit, seen), called by all lanes, returns the other bucket, where the key
// may be if the first does not have it, or kAll. With balances, a new key goes to the bucket with
// more free slots. All lanes of the warp must call it.
template <class S, class Second>
__device__ __forceinline__ void change_in_two(typename S::Word* slots, uint32_t flags, bool balances, Operation<S>& op,
                                              typename S::Key stored, uint32_t first, Second second) {
  using Key = typename S::Key;
  const bool reuse = flags & kReuse;
  auto see = [&](typename S::Word w, Key key) { return Seen::of<S>(w, key, reuse); };
  BucketRounds<S> one;
  one.read(slots, op.there ? first : kAll, stored);
  Key held = 0;
  bool hit = one.find(slots, op.there ? first : kAll, stored, held) && op.there;
  const Seen here{one.slots(see)};
  uint32_t bucket = first, matches = here.matches();
  const uint32_t next = second(one, hit, here);
  Seen there;
  if (ballot(kAll, next != kAll) != 0) {
    BucketRounds<S, true> other;
    other.read(slots, next, stored);
    Key found = 0;
    const bool hits = other.find(slots, next, stored, found) && next != kAll;
    const uint32_t seen = other.slots(see);
    if (next != kAll) there.bits = seen;
    if (hits) hit = true, held = found, bucket = next, matches = there.matches();
  }
  if (op.there) {
    op.outcome = kNothing;
    if (hit) {
      op.outcome = change_found<S, void>(slots + uint64_t(bucket) * one.kSlots + lowest(matches), stored, held, flags, op);
    } else if (inserts<S, void>(op.kind)) {
      const bool over = balances && popcount(there.frees()) > popcount(here.frees());
      typename S::Word* const near = slots + uint64_t(first) * one.kSlots;
      typename S::Word* const far = slots + uint64_t(next) * one.kSlots;
      op.outcome = enter_first<S>(over ? far : near, over ? there : here, stored, flags, op);
      if (op.outcome == kFull && next != kAll) op.outcome = enter_first<S>(over ? near : far, over ? here : there, stored, flags, op);
    }
  }
  sync_warp();
}

// change_part runs the operations with `part` by change(op), and leaves the others.
template <class S, class F>
__device__ __forceinline__ void change_part(Operation<S>& op, bool part, F change) {
  Operation<S> now = op;
  now.there = op.there && part;
  change(now);
  if (now.there) op.outcome = now.outcome, op.value = now.value;
}

// change_strides runs a batch in the launch that moves no key: its threads stride over it.
// change(op) reports whether an operation is done. If not, its outcome is kAgain, and the lane runs
// it again, along with the next ones of others. Operations that find no slot contend when they have
// run again.
template <class S, class K, class V, class Table, class F>
__device__ __forceinline__ void change_strides(const ChangeParams<Table>& p, F change) {
  const uint64_t stride = threads_in_grid(), n = p.changes.n;
  const auto read = [&](uint64_t at) { return operation<S, K, V>(p.changes, at < n ? uint32_t(at) : uint32_t(n)); };
  int32_t fresh = 0, live = 0;
  uint64_t at = thread_index();
  Operation<S> op = read(at), next = read(at + stride);
#pragma unroll 1
  while (ballot(kAll, op.there) != 0) {
    const bool done = change(op);
    if (done) outcome<S, V>(p.changes, uint32_t(at), op);
    list(p.changes, uint32_t(at), op, contends(op) && op.outcome != kFull);
    fresh += op.outcome == kInserted;
    live += inserted(op.outcome), live -= op.outcome == kDeleted;
    if (done) {
      op = next, at += stride;
      next = read(at + stride);  // prefetched while the other one is done
    }
    sync_warp();
  }
  count_all(&p.table.counters->used, fresh);
  count_all(&p.table.counters->live, live);
}

}  // namespace weft
