// Changes in two buckets of eight slots, in the launch that moves no keys. A warp searches for keys
// as in rounds.cuh, and each lane changes the slot for its own operation.
//
// No key enters two slots, for the same reason as in path.cuh. Within the launch free slots only
// disappear. A key enters at the first free slot of its buckets, or of the bucket that is chosen
// for it. A lane that finds a slot taken goes to the next slot that was free when the lane read the
// bucket. An earlier slot can have received the same key only if the lane found it taken, and the
// lane has checked such a slot.
#pragma once

#include "moves.cuh"
#include "rounds.cuh"

namespace weft {

// Seen describes what a lane has read in the slots of a bucket, by one bit per slot.
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

// change_found runs the operation of a lane on the slot that has its key.
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
    // another operation has deleted the key, in a launch of deletes
    if (S::key(word) != stored) return kNothing;
  }
}

// insert_first_free puts the pair of an operation into a slot of a bucket. It tries the slots that
// were free in `seen`, in order. If the key has entered one of them in the meantime, the operation
// runs on that slot.
template <class S>
__device__ __forceinline__ Outcome insert_first_free(typename S::Word* bucket, Seen seen, typename S::Key stored, uint32_t flags,
                                               Operation<S>& op) {
#pragma unroll 1
  for (uint32_t frees = seen.frees(); frees != 0; frees &= frees - 1) {
    typename S::Word* const slot = bucket + lowest(frees);
    typename S::Word word = S::pair(S::kEmpty, S::kEmpty);
    const bool empty = seen.empties() & frees & -frees;
    if (!empty) word = load_relaxed(slot);  // a dead slot, which remembers a key
    if ((empty || S::key(word) == S::kDead) && S::swap(slot, word, S::pair(stored, op.value))) return empty ? kInserted : kRevived;
    word = load_relaxed(slot);
    if (S::key(word) == stored) return change_found<S, void>(slot, stored, S::value(word), flags, op);
  }
  return kFull;
}

// change_in_two runs one operation for each lane with op.there. stored is the key in stored form,
// and first is its first bucket. second(rounds, hit, seen) returns the other bucket in which the
// key may be if it is not in the first, or kAll. All lanes call it. With balances, a new key goes
// to the bucket with more free slots. All lanes of the warp must call change_in_two.
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
      op.outcome = insert_first_free<S>(over ? far : near, over ? there : here, stored, flags, op);
      if (op.outcome == kFull && next != kAll) op.outcome = insert_first_free<S>(over ? near : far, over ? here : there, stored, flags, op);
    }
  }
  sync_warp();
}

// change_part runs the operations of lanes with `part` by change(op), and no others.
template <class S, class F>
__device__ __forceinline__ void change_part(Operation<S>& op, bool part, F change) {
  Operation<S> now = op;
  now.there = op.there && part;
  change(now);
  if (now.there) op.outcome = now.outcome, op.value = now.value;
}

// change_strides runs a batch in the launch that moves no keys. Its threads stride over the batch.
// change(op) reports whether an operation is done. If it is not done, its outcome is kAgain, and
// the lane runs it again while other lanes run their next operations. An operation that finds no
// slot runs again in a later launch, and only then contends.
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
      next = read(at + stride);  // prefetched while the current one runs
    }
    sync_warp();
  }
  count_all(&p.table.counters->used, fresh);
  count_all(&p.table.counters->live, live);
}

}  // namespace weft
