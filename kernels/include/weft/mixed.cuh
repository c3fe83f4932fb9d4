// Mixed batches: every operation has a kind of its own, and no order among those
// of a batch is promised. So where lanes of a warp have one key, one of them does what
// all come to: their outcomes follow from what the slot was before. Where many want
// one slot, each tries in vain most of the time, and what matters is how few they are.
#pragma once

#include "batch.cuh"

namespace weft {

// Crowd is the operations of a warp on the key of a lane, in the order of the lanes.
template <class S>
struct Crowd {
  using Key = typename S::Key;

  uint32_t lanes, puts, news, deletes;  // that there are

  // Every lane of the warp makes one, and calls what follows.
  __device__ __forceinline__ explicit Crowd(const Operation<S>& op) : lanes(peers(op)) {
    puts = lanes & ballot(kAll, op.kind == kPut), news = lanes & ballot(kAll, op.kind == kPutNew);
    deletes = lanes & ballot(kAll, op.kind == kDelete);
  }

  __device__ __forceinline__ uint32_t leader() const { return lowest(lanes); }

  // lead makes of the leader's operation the one that leaves the slot as all of them
  // do: what the last change makes of it.
  __device__ __forceinline__ void lead(Operation<S>& op) const {
    const uint32_t all = puts | news | deletes, last = all ? highest(all) : kWarp;
    // Behind a Put or a Delete it is known which PutNews insert.
    const uint32_t sets = puts | (lanes & ballot(kAll, bit(news) && follows(deletes)));
    const uint32_t writer = sets ? highest(sets) : news ? lowest(news) : lane_index();
    const Key value = shuffle(kAll, op.value, writer);
    if (op.there) {
      op.kind = last == kWarp ? kGet : deletes >> last & 1 ? kDelete : sets ? kPut : kPutNew;
      op.value = value;
    }
    op.there = op.there && lane_index() == leader();
  }

  // part gives the operation of each lane its outcome, from the leader's and the
  // value that was there. Of the pairs that were inserted one took the slot, if any
  // did; the others count as revived.
  __device__ __forceinline__ void part(Operation<S>& op, Outcome done, Key old) const {
    const bool was = done == kPresent || done == kReplaced || done == kDeleted;
    const uint32_t before = (puts | news | deletes) & below();
    const bool present = before ? !follows(deletes) : was;
    const bool adds = !present && (bit(puts) || bit(news));
    const uint32_t added = lanes & ballot(kAll, adds), sets = (puts | added) & below();
    const Key held = shuffle(kAll, op.value, sets ? highest(sets) : lane_index());
    if (!op.there) return;
    if (done == kFull) op.outcome = bit(puts) || bit(news) ? kFull : kNothing;
    else if (adds) op.outcome = lane_index() == lowest(added) && inserted(done) ? done : kRevived;
    else if (bit(puts)) op.outcome = kReplaced;
    else if (bit(deletes)) op.outcome = present ? kDeleted : kNothing;
    else op.outcome = present ? kPresent : kNothing;
    op.value = sets ? held : old;
  }

 private:
  __device__ static __forceinline__ uint32_t below() { return (1u << lane_index()) - 1; }
  __device__ static __forceinline__ bool bit(uint32_t of) { return of >> lane_index() & 1; }

  // follows tells whether the last change before this lane's is one of those.
  __device__ __forceinline__ bool follows(uint32_t of) const {
    const uint32_t before = (puts | news | deletes) & below();
    return before && (of >> highest(before) & 1);
  }

  // peers are the lanes that have this one's key.
  __device__ static __forceinline__ uint32_t peers(const Operation<S>& op) {
    uint32_t same = match_any(kAll, uint32_t(op.key)) & ballot(kAll, op.there);
    if constexpr (sizeof(Key) == 8) same &= match_any(kAll, uint32_t(op.key >> 32));
    return op.there ? same : 1u << lane_index();
  }
};

// crowds tells whether lanes of the warp probably have one key: whether one has that of
// a lane whose number differs in one bit. To compare all of them costs a mixed batch
// that has no such keys a tenth.
template <class Key>
__device__ __forceinline__ bool crowds(Key key) {
  const uint32_t folded = uint32_t(key ^ uint64_t(key) >> 32);
  bool same = false;
#pragma unroll
  for (uint32_t bit = 1; bit < kWarp; bit *= 2) same |= shuffle_xor(kAll, folded, bit) == folded;
  return ballot(kAll, same) != 0;
}

// change_crowds changes the table by one lane for each key.
template <class S, class K, class V, class Change>
__device__ __forceinline__ void change_crowds(const Changes& c, uint32_t i, Operation<S>& op, Change change) {
  const bool there = op.there;
  const bool many = crowds(op.key);
  if (many) Crowd<S>(op).lead(op);
  change(op);
  if (many) {
    uint32_t done = op.outcome;
    typename S::Key old = op.value;
    op = operation<S, K, V>(c, i);  // as it was
    op.there = there;
    Crowd<S> crowd(op);
    done = shuffle(kAll, done, crowd.leader()), old = shuffle(kAll, old, crowd.leader());
    crowd.part(op, Outcome(done), old);
  }
  op.there = there;
}

// change_mixed is a mixed batch but for its reductions, an operation per thread,
// by what changes a table for the lanes of a warp.
template <class S, class K, class V, class Change>
__device__ __forceinline__ void change_mixed(const Changes& c, Counters* counters, Change change) {
  uint32_t i = uint32_t(thread_index());
  Operation<S> op = operation<S, K, V>(c, i);
  leave_reductions(c, op);
  change_crowds<S, K, V>(c, i, op, change);
  outcome<S, V>(c, i, op);
  list(c, i, op, false);  // nothing contends in mixed batches
  tally_block(counters, op.outcome);
}

}  // namespace weft
