// Operations of a batch by warps whose tiles go in step. Tiles that go each its way have their instructions one after the
// other: eight of them took eight times as many.
#pragma once

#include "change.cuh"

namespace weft::btree {

// Together are the tiles of a warp, each with an operation. They go down to their leaves, latch them and change them, all at the
// same moments. What does not work out like that is left for a Writer: where a latch is taken, a leaf is full or
// another one has the key now.
template <class S, class V>
struct Together {
  using L = Lanes<S, true>;
  using N = Node<S, true>;
  using Key = typename S::Key;
  using Sh = Shape<S>;
  static constexpr uint32_t kSlots = Sh::kSlots, kNowhere = ~0u, kHops = 3;

  // What has come of an operation: nothing has been done; it is done; it is, and the leaf has few pairs now.
  enum Result : uint32_t { kLeft, kDone, kThin };

  Tree t;
  uint32_t flags = 0;
  int32_t added = 0;      // pairs, by this tile
  uint32_t from = kRoot;  // where the way to the next key begins, if that is not smaller
  L l{};

  // look does the lookup of each tile that has one.
  __device__ __forceinline__ void look(bool has_one, const Task<S>& op, Task<S>& mine, bool is_mine) const {
    Search<S, true> s;
    N n;
    uint32_t state, at;
    Key value;
    while (ballot(kAll, has_one && !s.leaf)) s.descend(t, l, op.key);
    while (ballot(kAll, has_one)) {
      const bool done = s.step(t, l, op.key, n, state);
      const bool there = find(n, op.key, count_of(state), at, value);
      if (has_one && done && is_mine) mine.there = there, mine.value = value;
      has_one = has_one && !done;
    }
  }

  // change does the operation of each tile that has one, which all of its lanes know, and tells lane is_mine what was there.
  __device__ __forceinline__ Result change(bool has_one, const Task<S>& op, Task<S>& mine, bool is_mine) {
    const uint32_t id = way(has_one, op.key);
    uint64_t* word = state_word<S>(t, id);
    const bool latched = latch(word, has_one);
    N n;
    n.load_relaxed(t, id, l.rank);
    const uint32_t state = n.state(l), link = n.link(l), count = count_of(state);
    const bool right = n.beyond(l, op.key), leaf = latched && level_of(state) == 0 && !(state & kDead) && !right;
    uint32_t at;
    Key old;
    const bool there = find(n, op.key, count, at, old), removes = op.kind == kDelete;
    const bool enters = !there && !removes && op.kind != kUpdate, stores = there && !removes && op.kind != kPutNew;
    const bool done = leaf && !(enters && count == kSlots);
    const bool changed = done && (enters || stores || (removes && there));
    const Key val = there && op.kind != kPut && op.kind != kUpdate ? Key(combine(op.kind, flags, V(old), V(op.value))) : op.value;
    const uint32_t below = n.below(l, op.key, count);
    n.set(l, done && stores ? at : kNowhere, S::pair(op.key, val));
    n.open(l, done && enters ? below : kNowhere, S::pair(op.key, val));
    n.close(l, done && removes && there ? at : kNowhere);
    const uint32_t now = count + (changed && enters ? 1 : 0) - (changed && removes ? 1 : 0);
    write(word, n, id, latched, changed, state, link, now, now > count ? now : count);
    added += int32_t(now - count);
    if (is_mine && done) mine.there = there, mine.value = old;
    return !done ? kLeft : now < count && now < Sh::kFew ? kThin : kDone;
  }

 private:
  // way is the leaf of a key for each tile that wants it. The launch changes no inner node, so these are read without an order, and
  // a way that begins at the node that the key before came through, two levels above its leaf, leads where one from the root does:
  // to that node or to one of the next of its level; where that is far, it begins anew.
  __device__ __forceinline__ uint32_t way(bool wants, Key key) {
    uint32_t at = from, hops = 0, id = 0;
    bool leaf = false;
    while (ballot(kAll, wants && !leaf)) {
      N n;
#pragma unroll
      for (uint32_t p = 0; p < N::kPieces; p++) n.piece[p].whole = load_weak(node_of<S>(t, at) + p * L::kLanes + l.rank);
      const uint32_t level = level_of(n.state(l)), link = n.link(l);
      const bool right = n.beyond(l, key);
      Key low;
      id = n.child(l, key, low);
      hops += right;
      from = !right && level == 2 ? at : from;
      leaf = !right && level == 1;  // and stays that, while others go on
      const uint32_t next = !right ? id : hops == kHops ? kRoot : link;
      at = leaf ? at : next;
    }
    return id;
  }

  // latch takes the latch of a leaf for each tile that wants it, and reports whether it got it. Who finds it taken has set a bit that was set.
  __device__ __forceinline__ bool latch(uint64_t* word, bool wants) const {
    constexpr uint64_t bit = uint64_t(kLatched) << 32;
    uint32_t taken = 0;
    l.sync();  // any lane may have acquired the way here
    if (wants && l.rank == 0) taken = !(or_acquire(word, bit) & bit);
    l.sync();
    return l.share(taken, 0);
  }

  // find reports whether one of the first count slots has a key, which, and with what value.
  __device__ __forceinline__ bool find(const N& n, Key key, uint32_t count, uint32_t& at, Key& value) const {
    bool mine = false;
    at = 0, value = 0;
    n.each(l.rank, [&](uint32_t, uint32_t, uint32_t number, typename S::Word w) {
      if (number < count && S::key(w) == key) mine = true, at = number, value = S::value(w);
    });
    const uint32_t who = l.vote(mine), lane = who ? lowest(who) : 0;
    at = l.share(at, lane), value = l.share(value, lane);
    return who != 0;
  }

  // write stores leaves that have changed, the mark that they are being changed first, and gives latches back.
  __device__ __forceinline__ void write(uint64_t* word, const N& n, uint32_t id, bool latched, bool changed, uint32_t state, uint32_t link,
                                        uint32_t count, uint32_t slots) const {
    if (changed && l.rank == 0) store_relaxed(word, uint64_t(state | kLatched | kChanging) << 32 | link);
    l.sync();
    fence();  // who acquires a piece sees the mark
    if (changed) {
#pragma unroll
      for (uint32_t p = 0; p < N::kPieces; p++)
        if (N::number(l.rank, p, 0) < slots) store_relaxed(node_of<S>(t, id) + p * L::kLanes + l.rank, n.piece[p].whole);
    }
    l.sync();
    const uint32_t then = changed ? next_state(state, count) : state & ~kLatched;
    if (latched && l.rank == 0) store_release(word, uint64_t(then) << 32 | link);
  }
};

constexpr uint32_t kMerge = 1u << 31;  // beside a row that is left: it has been done, but its leaf has few pairs

// leave lists what is left of the rows of a warp's lanes, for the next launch.
__device__ __forceinline__ void leave(const ChangeParams& p, bool some, uint32_t row) {
  const uint32_t votes = ballot(kAll, some), lane = lane_index();
  if (votes == 0) return;
  uint32_t at = 0;
  if (lane == lowest(votes)) at = add_relaxed(p.left, popcount(votes));
  at = shuffle(kAll, at, lowest(votes)) + popcount(votes & ((1u << lane) - 1));
  if (some) p.left[1 + at] = row;
}

// together does the operations of a batch, but for those that it lists. A tile has some neighboring keys, one after the other, and tiles at
// work at the same moment have keys that lie far apart, since they would want the same leaf.
template <class S, class K, class V>
__device__ __forceinline__ void together(const ChangeParams& p) {
  constexpr uint32_t lanes = Shape<S>::kLanes, tiles = kWarp / lanes;
  using T = Together<S, V>;
  const uint64_t n = p.count ? *p.count : p.n;
  const Spread order = Spread::of<S>(n);
  T all{p.tree, p.flags};
  for (uint64_t base = thread_index() / kWarp * tiles; base < order.size(); base += threads_in_grid() / lanes) {
    const uint64_t i = uint64_t(order.run(uint32_t(base) + lane_index() / lanes)) * lanes + all.l.rank;
    const bool mine = i < n;
    Task<S> task = btree::task<S, K, V>(p, i, mine);
    const uint32_t kind = mine ? task.kind : uint32_t(kNone);
    typename T::Result result = T::kDone;  // of this lane's operation
#pragma unroll 1
    for (uint32_t c = 0; c < lanes; c++) {
      const Task<S> op{all.l.share(task.key, c), all.l.share(task.value, c), all.l.share(kind, c), false};
      const bool gets = op.kind == kGet, changes = !gets && op.kind != kNone, own = all.l.rank == c;
      if (ballot(kAll, gets)) all.look(gets, op, task, own);
      if (!ballot(kAll, changes)) continue;
      if (c == 0 || !p.states) all.from = kRoot;
      const typename T::Result r = all.change(changes, op, task, own);
      if (changes && own) result = r;
    }
    leave(p, mine && result != T::kDone, uint32_t(i) | (result == T::kThin ? kMerge : 0));
    if (!p.states && mine && result != T::kLeft) report<S, V>(p, i, task);
  }
  const uint64_t added = all.l.rank == 0 ? uint64_t(int64_t(all.added)) : 0;
  add_up(&control_of(p.tree)->counters.live, added);
  add_up(&control_of(p.tree)->counters.used, added);
}

}  // namespace weft::btree
