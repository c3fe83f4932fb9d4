// Mixed batches. Every operation has its own kind, and the order within a batch is not promised. If
// many lanes compete for one slot, most attempts fail. So if lanes of a warp have the same key, one
// of them runs a combined operation. The outcomes of all these lanes follow from the previous state
// of the slot.
#pragma once

#include "batch.cuh"

namespace weft {

// State is the state of a key between two operations.
template <class S>
struct State {
  using Key = typename S::Key;

  bool present, full;  // full: the key is absent, and no slot is free for it
  Key value;

  // after applies an operation that one thread runs for many lanes.
  __device__ __forceinline__ void after(uint32_t kind, Key with) {
    if (kind == kPut || (kind == kPutNew && !present)) present = true, value = with;
    if (kind == kDelete) present = false;
  }
};

// then combines an operation for many lanes with the operation that follows it.
template <class Key>
__device__ __forceinline__ void then(uint32_t& kind, Key& value, uint32_t next, Key with) {
  if (next == kGet || (next == kPutNew && (kind == kPut || kind == kPutNew))) return;
  kind = next == kPutNew && kind == kDelete ? uint32_t(kPut) : next;
  value = with;
}

// SameKeyGroup describes the operations of a warp on the key of a lane, in the order of the lanes.
template <class S>
struct SameKeyGroup {
  using Key = typename S::Key;

  uint32_t lanes, puts, news, deletes;  // masks of the lanes with the key: all, and by kind

  // All lanes of the warp must construct a SameKeyGroup and call its methods together.
  __device__ __forceinline__ explicit SameKeyGroup(const Operation<S>& op) : lanes(peers(op)) {
    puts = lanes & ballot(kAll, op.kind == kPut), news = lanes & ballot(kAll, op.kind == kPutNew);
    deletes = lanes & ballot(kAll, op.kind == kDelete);
  }

  __device__ __forceinline__ uint32_t leader() const { return lowest(lanes); }

  // lead replaces the leader's operation by one that leaves the slot as all operations of the crowd
  // would. That is the effect of the last change. The other lanes lose their operations.
  __device__ __forceinline__ void lead(Operation<S>& op) const {
    const uint32_t all = puts | news | deletes, last = all ? highest(all) : kWarp;
    // after a Put or a Delete, it is certain which PutNews insert
    const uint32_t sets = puts | (lanes & ballot(kAll, bit(news) && follows(deletes)));
    const uint32_t writer = sets ? highest(sets) : news ? lowest(news) : lane_index();
    const Key value = shuffle(kAll, op.value, writer);
    if (op.there) {
      op.kind = last == kWarp ? kGet : deletes >> last & 1 ? kDelete : sets ? kPut : kPutNew;
      op.value = value;
    }
    op.there = op.there && lane_index() == leader();
  }

  // part sets the outcome of each lane's operation, from the previous state of the key. It reports
  // an inserted pair as revived, because the lane that ran the operation for all has counted the
  // slot.
  __device__ __forceinline__ void part(Operation<S>& op, const State<S>& was) const {
    const bool present = (puts | news | deletes) & below() ? !follows(deletes) : was.present;
    const bool adds = !present && (bit(puts) || bit(news));
    const uint32_t sets = (puts | (lanes & ballot(kAll, adds))) & below();
    const Key held = shuffle(kAll, op.value, sets ? highest(sets) : lane_index());
    if (!op.there) return;
    if (was.full) op.outcome = bit(puts) || bit(news) ? kFull : kNothing;
    else if (adds) op.outcome = kRevived;
    else if (bit(puts)) op.outcome = kReplaced;
    else if (bit(deletes)) op.outcome = present ? kDeleted : kNothing;
    else op.outcome = present ? kPresent : kNothing;
    op.value = sets ? held : was.value;
  }

 private:
  __device__ static __forceinline__ uint32_t below() { return (1u << lane_index()) - 1; }
  __device__ static __forceinline__ bool bit(uint32_t of) { return of >> lane_index() & 1; }

  // follows reports whether the last change before this lane's operation is in the mask `of`.
  __device__ __forceinline__ bool follows(uint32_t of) const {
    const uint32_t before = (puts | news | deletes) & below();
    return before && (of >> highest(before) & 1);
  }

  // peers returns the mask of the lanes that have the key of this lane.
  __device__ static __forceinline__ uint32_t peers(const Operation<S>& op) {
    uint32_t same = match_any(kAll, uint32_t(op.key)) & ballot(kAll, op.there);
    if constexpr (sizeof(Key) == 8) same &= match_any(kAll, uint32_t(op.key >> 32));
    return op.there ? same : 1u << lane_index();
  }
};

// crowds reports whether lanes of the warp probably have the same key. It compares the keys of each
// two lanes with numbers that differ in one bit. A missed crowd does no harm.
template <class Key>
__device__ __forceinline__ bool crowds(Key key) {
  const uint32_t folded = uint32_t(key ^ uint64_t(key) >> 32);
  bool same = false;
#pragma unroll
  for (uint32_t bit = 1; bit < kWarp; bit *= 2) same |= shuffle_xor(kAll, folded, bit) == folded;
  return ballot(kAll, same) != 0;
}

// BlockGroups is the shared memory in which the warps of a block combine their crowds, one of each
// warp.
template <class S>
struct BlockGroups {
  using Key = typename S::Key;

  Key keys[kWarp], values[kWarp], olds[kWarp];
  uint32_t kinds[kWarp], outcomes[kWarp];  // kNone: the warp has no crowd

  __device__ static __forceinline__ uint32_t own() { return thread_in_block() / kWarp; }

  // post publishes the operation that a lane runs for its warp's crowd. One lane of each warp calls
  // it.
  __device__ __forceinline__ void post(const Operation<S>& op, bool crowd) {
    kinds[own()] = crowd ? op.kind : uint32_t(kNone);
    keys[own()] = op.key, values[own()] = op.value;
  }
  // join combines the operations of all warps that have posted the same key. The first of these
  // warps runs the combined operation, and the other warps run none.
  __device__ __forceinline__ void join(Operation<S>& op) const {
    for (uint32_t w = 0; w < warps(); w++) {
      if (w == own() || kinds[w] == kNone || keys[w] != op.key) continue;
      if (w < own()) op.there = false;
      else then(op.kind, op.value, kinds[w], values[w]);
    }
  }
  // before advances a state past the operations of all earlier warps with the key. The first of
  // these warps has found the previous state of the key.
  __device__ __forceinline__ void before(Key key, State<S>& state) const {
    uint32_t first = own();
    for (uint32_t w = own(); w-- > 0;)
      if (kinds[w] != kNone && keys[w] == key) first = w;
    if (first == own()) return;
    state = of(Outcome(outcomes[first]), olds[first]);
    for (uint32_t w = first; w < own(); w++)
      if (kinds[w] != kNone && keys[w] == key) state.after(kinds[w], values[w]);
  }
  // of returns the state that an operation found, from its outcome and the old value.
  __device__ static __forceinline__ State<S> of(Outcome done, Key old) {
    return {done == kPresent || done == kReplaced || done == kDeleted, done == kFull, old};
  }

 private:
  __device__ static __forceinline__ uint32_t warps() { return (threads_per_block() + kWarp - 1) / kWarp; }
};

// part_crowds sets the outcomes of all operations that were combined.
template <class S, class K, class V>
__device__ __forceinline__ void part_crowds(const Changes& c, uint32_t i, Operation<S>& op, bool there, bool many,
                                            BlockGroups<S>& board, Counters* counters) {
  const Outcome done = op.outcome;
  State<S> was = BlockGroups<S>::of(done, op.value);
  // without a crowd in its warp, a lane still has its own operation
  if (many) op = operation<S, K, V>(c, i), op.there = there;
  SameKeyGroup<S> crowd(op);
  const uint32_t leaders = ballot(kAll, many && there && lane_index() == crowd.leader());
  const bool stands = leaders && lane_index() == lowest(leaders);
  if (stands) board.outcomes[board.own()] = done, board.olds[board.own()] = was.value;
  sync_block();
  if (stands) board.before(op.key, was);
  if (!many) return;
  if (done == kInserted) add_relaxed(&counters->used, uint64_t(1));
  was.present = shuffle(kAll, uint32_t(was.present), crowd.leader()), was.full = shuffle(kAll, uint32_t(was.full), crowd.leader());
  was.value = shuffle(kAll, was.value, crowd.leader());
  crowd.part(op, was);
}

// change_crowds runs the operations of a block. Where operations of its threads on one key meet,
// one thread changes the table for all. All threads of the block must call it.
template <class S, class K, class V, class Change>
__device__ __forceinline__ void change_crowds(const Changes& c, uint32_t i, Operation<S>& op, Counters* counters, Change change) {
  __shared__ BlockGroups<S> board;
  const bool there = op.there, many = crowds(op.key);
  const bool meet = count_block(many) != 0;
  if (meet) {
    if (many) SameKeyGroup<S>(op).lead(op);
    uint32_t leaders = ballot(kAll, many && op.there);
    if (lane_index() == (leaders ? lowest(leaders) : 0)) board.post(op, leaders != 0);
    sync_block();
    if (leaders && lane_index() == lowest(leaders)) board.join(op);
  }
  change(op);
  if (meet) part_crowds<S, K, V>(c, i, op, there, many, board, counters);
  op.there = there;
}

// change_mixed runs a mixed batch except its reductions, one operation per thread. change(op)
// changes the table for the lanes of a warp.
template <class S, class K, class V, class Change>
__device__ __forceinline__ void change_mixed(const Changes& c, Counters* counters, Change change) {
  uint32_t i = uint32_t(thread_index());
  Operation<S> op = operation<S, K, V>(c, i);
  defer_reductions(c, op);
  change_crowds<S, K, V>(c, i, op, counters, change);
  outcome<S, V>(c, i, op);
  list(c, i, op, false);  // mixed batches have no order to resolve
  tally_block(counters, op.outcome);
}

}  // namespace weft
