// Mixed batches: every operation has a kind of its own, and no order among those
// of a batch is promised. So those of a warp on one key are done as one, by one
// lane: all their outcomes follow from what the slot was before. Where many want one
// slot, each tries in vain most of the time, and what matters is how few they are.
#pragma once

#include "batch.cuh"

namespace weft {

// Crowd is the operations of a warp on the key of a lane, done at once in this
// order: those that change nothing, Puts, PutNews, Deletes.
template <class S>
struct Crowd {
  using Key = typename S::Key;

  uint32_t lanes, puts, news, deletes;  // that there are
  Key value;  // of the last Put, or if there is none of the first PutNew

  // Every lane of the warp makes one.
  __device__ __forceinline__ explicit Crowd(const Operation<S>& op) : lanes(peers(op)) {
    puts = lanes & ballot(kAll, op.kind == kPut), news = lanes & ballot(kAll, op.kind == kPutNew);
    deletes = lanes & ballot(kAll, op.kind == kDelete);
    value = shuffle(kAll, op.value, puts ? highest(puts) : news ? lowest(news) : lane_index());
  }

  // alike are the lanes with an operation on a key of one hash: mostly few, and
  // found at once.
  __device__ static __forceinline__ uint32_t alike(const Operation<S>& op) {
    uint32_t there = ballot(kAll, op.there), same = match_any(kAll, uint32_t(op.key ^ uint64_t(op.key) >> 32));
    return op.there ? same & there : 1u << lane_index();
  }

  // leader is the lane that does what all do, and kind what it does: that leaves the
  // slot as they would.
  __device__ __forceinline__ uint32_t leader() const { return lowest(lanes); }
  __device__ __forceinline__ uint32_t kind() const { return deletes ? kDelete : puts ? kPut : news ? kPutNew : kGet; }

  // serve gives an operation its outcome, from the leader's and the value that was
  // there. A pair that comes and goes counts as revived: it takes no slot.
  __device__ __forceinline__ void serve(Operation<S>& op, Outcome done, Key old) const {
    const bool present = done == kPresent || done == kReplaced || done == kDeleted;
    const Outcome inserted = deletes ? kRevived : done;
    switch (op.kind) {
      case kPut:
        op.outcome = done == kFull ? kFull : present || !first(puts) ? kReplaced : inserted;
        return;
      case kPutNew:
        op.outcome = done == kFull ? kFull : present || puts || !first(news) ? kPresent : inserted;
        op.value = present && !puts ? old : value;
        return;
      case kDelete:
        op.outcome = first(deletes) && (present || (puts | news)) ? kDeleted : kNothing;
        return;
      default:
        op.outcome = present ? kPresent : kNothing;
        op.value = old;
    }
  }

 private:
  __device__ static __forceinline__ bool first(uint32_t of) { return lane_index() == lowest(of); }

  // peers are the lanes that have this one's key.
  __device__ static __forceinline__ uint32_t peers(const Operation<S>& op) {
    uint32_t same = alike(op), own = 1u << lane_index();
    bool agrees = op.key == shuffle(kAll, op.key, lowest(same));  // with the first of its hash
    uint32_t all = ballot(kAll, agrees);
    return agrees ? same & all : own;
  }
};

// change_crowds changes the table by one lane for each key.
template <class S, class K, class V, class Change>
__device__ __forceinline__ void change_crowds(const Changes& c, uint32_t i, Operation<S>& op, Change change) {
  const bool there = op.there;
  uint32_t alike = Crowd<S>::alike(op);
  const bool many = ballot(kAll, (alike & (alike - 1)) != 0) != 0;
  if (many) {
    Crowd<S> crowd(op);
    if (there) op.kind = crowd.kind(), op.value = crowd.value;
    op.there = there && lane_index() == crowd.leader();
  }
  change(op);
  if (many) {
    uint32_t done = op.outcome;
    typename S::Key old = op.value;
    op = operation<S, K, V>(c, i);  // as it was
    op.there = there;
    Crowd<S> crowd(op);
    done = shuffle(kAll, done, crowd.leader()), old = shuffle(kAll, old, crowd.leader());
    if (there) crowd.serve(op, Outcome(done), old);
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
