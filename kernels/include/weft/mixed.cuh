// Mixed batches: every operation has a kind of its own, and no order among those
// of a batch is promised. Where many want one slot, each tries in vain most of the
// time, and what matters is how few they are. So who finds another thread faster is
// put off, and those of a block that want one key are then done as one, by one
// thread: all their outcomes follow from what the slot was before.
#pragma once

#include "batch.cuh"

namespace weft {

// Crowd is operations on one key, done at once in this order: those that change
// nothing, Puts, PutNews, Deletes.
template <class S>
struct Crowd {
  using Key = typename S::Key;

  uint32_t kinds;  // that there are, a bit each
  Key value;       // of the last Put, or if there is none of the first PutNew

  __device__ __forceinline__ bool has(uint32_t kind) const { return kinds >> kind & 1; }

  // join adds a crowd whose operations come behind those of the same kind.
  __device__ __forceinline__ void join(uint32_t others, Key with) {
    if (others >> kPut & 1 || !(has(kPut) || has(kPutNew))) value = with;
    kinds |= others;
  }
  // kind is that of the one operation which leaves the slot as all of them do.
  __device__ __forceinline__ uint32_t kind() const {
    return has(kDelete) ? kDelete : has(kPut) ? kPut : has(kPutNew) ? kPutNew : kGet;
  }
  // serve gives an operation its outcome, from that of the one for all and the
  // value that was there. first: no other of its kind comes before it. A pair that
  // the crowd inserts and deletes counts as revived: it takes no slot.
  __device__ __forceinline__ void serve(Operation<S>& op, Outcome done, Key old, bool first) const {
    const bool present = done == kPresent || done == kReplaced || done == kDeleted;
    const bool adds = has(kPut) || has(kPutNew);
    const Outcome inserted = has(kDelete) ? kRevived : done;
    switch (op.kind) {
      case kPut:
        op.outcome = done == kFull ? kFull : present || !first ? kReplaced : inserted;
        return;
      case kPutNew:
        op.outcome = done == kFull ? kFull : present || has(kPut) || !first ? kPresent : inserted;
        op.value = present && !has(kPut) ? old : value;
        return;
      case kDelete:
        op.outcome = first && (present || adds) ? kDeleted : kNothing;
        return;
      default:
        op.outcome = present ? kPresent : kNothing;
        op.value = old;
    }
  }
};

// Meeting is where operations of a block that were put off come together: unite
// before the table is changed, part behind it, by all threads.
template <class S, class K, class V>
struct Meeting {
  using Key = typename S::Key;

  struct Board {  // one crowd of each warp
    Key keys[kWarp], values[kWarp], olds[kWarp];
    uint32_t kinds[kWarp], outcomes[kWarp];
  };

  Board& board;

  __device__ __forceinline__ void unite(Operation<S>& op) {
    Side side(op, peers(op));
    if (side.stands) board.keys[own()] = op.key, board.values[own()] = side.crowd.value;
    if (side.stands || (lane_index() == 0 && side.hot == 0)) board.kinds[own()] = side.hot ? side.crowd.kinds : 0;
    sync_block();
    bool leads = side.leads;
    if (side.stands) leads = meet(op.key, side.crowd) == own();
    if (op.there) op.kind = side.crowd.kind(), op.value = side.crowd.value;
    op.there = op.there && leads;
  }

  // part turns the operations that were united into those that they had been.
  __device__ __forceinline__ void part(Operation<S>& op, const Operation<S>& was) {
    uint32_t done = op.outcome, before = 0;
    Key old = op.value;
    Side side(was, peers(was));
    uint32_t leader = own();
    if (side.stands) leader = meet(was.key, side.crowd, &before);
    if (side.stands && leader == own()) board.outcomes[own()] = done, board.olds[own()] = old;
    sync_block();
    if (leader != own()) done = board.outcomes[leader], old = board.olds[leader];

    done = shuffle(kAll, done, side.from), old = shuffle(kAll, old, side.from);
    side.crowd.kinds = shuffle(kAll, side.crowd.kinds, side.from);
    side.crowd.value = shuffle(kAll, side.crowd.value, side.from);
    before = shuffle(kAll, before, side.from);
    if (!was.there) return;
    op = was;
    side.crowd.serve(op, Outcome(done), old, side.first && !(before >> op.kind & 1));
  }

 private:
  __device__ static __forceinline__ uint32_t own() { return thread_in_block() / kWarp; }

  // peers are the lanes whose operations have this one's key.
  __device__ static __forceinline__ uint32_t peers(const Operation<S>& op) {
    uint32_t lanes = match_any(kAll, uint32_t(op.key)) & ballot(kAll, op.there);
    if constexpr (sizeof(Key) == 8) lanes &= match_any(kAll, uint32_t(op.key >> 32));
    return op.there ? lanes : 1u << lane_index();
  }

  // Side is what a lane knows of its warp.
  struct Side {
    Crowd<S> crowd;
    uint32_t from, hot;  // the lane that leads this one; all that lead
    bool leads, stands;  // this lane: its crowd, and the one that meets other warps'
    bool first;          // of its kind in its crowd

    __device__ __forceinline__ Side(const Operation<S>& op, uint32_t lanes) {
      uint32_t puts = lanes & ballot(kAll, op.kind == kPut), news = lanes & ballot(kAll, op.kind == kPutNew);
      uint32_t deletes = lanes & ballot(kAll, op.kind == kDelete);
      uint32_t writer = puts ? highest(puts) : news ? lowest(news) : lane_index();
      crowd.value = shuffle(kAll, op.value, writer);
      crowd.kinds = (puts ? 1u << kPut : 0) | (news ? 1u << kPutNew : 0) | (deletes ? 1u << kDelete : 0) | 1u << kGet;
      uint32_t like = op.kind == kPut ? puts : op.kind == kPutNew ? news : op.kind == kDelete ? deletes : lanes;
      from = lowest(lanes);
      leads = lane_index() == from;
      first = like != 0 && lane_index() == lowest(like);
      hot = ballot(kAll, op.there && leads);
      stands = hot != 0 && lane_index() == lowest(hot);
    }
  };

  // meet joins the crowds of a key, those of all warps in order, and returns the
  // warp that leads them, the first. before receives the kinds of earlier warps.
  __device__ __forceinline__ uint32_t meet(Key key, Crowd<S>& crowd, uint32_t* before = nullptr) const {
    const uint32_t warps = (threads_per_block() + kWarp - 1) / kWarp;
    uint32_t leader = kWarp;
    Crowd<S> all{0, 0};
    for (uint32_t w = 0; w < warps; w++) {
      if (board.kinds[w] == 0 || board.keys[w] != key) continue;
      if (w == own() && before) *before = all.kinds;
      if (leader == kWarp) leader = w;
      all.join(board.kinds[w], board.values[w]);
    }
    crowd = all;
    return leader;
  }
};

// change_mixed is a mixed batch but for its reductions, an operation per thread,
// by what changes a table for the lanes of a warp.
template <class S, class K, class V, class Change>
__device__ __forceinline__ void change_mixed(const Changes& c, Counters* counters, Change change) {
  __shared__ typename Meeting<S, K, V>::Board board;
  Meeting<S, K, V> meeting{board};
  uint32_t i = uint32_t(thread_index());
  Operation<S> op = operation<S, K, V>(c, i);
  leave_reductions(c, op);
  const bool there = op.there;
  bool later = false, met = false;
  for (uint32_t flags = kOnce;; flags = 0) {
    change(op, flags);
    if (met) break;
    later = there && op.outcome == kLater;
    met = count_block(later) != 0;
    if (!met) break;
    op.there = later;
    if (later) op = operation<S, K, V>(c, i);
    meeting.unite(op);
  }
  if (met) {
    Operation<S> was{false, 0, 0, 0};
    if (later) was = operation<S, K, V>(c, i);
    meeting.part(op, was);
  }
  op.there = there;
  outcome<S, V>(c, i, op);
  list(c, i, op, false);  // nothing contends in mixed batches
  tally_block(counters, op.outcome);
}

}  // namespace weft
