// The operations of a batch, run by warps with tiles in lockstep. If the tiles of a warp diverge,
// the warp issues their instructions one tile after the other. Eight diverged tiles took eight
// times as many instructions.
#pragma once

#include "parents.cuh"

namespace weft::btree {

// Lockstep is a warp of tiles with one operation each. In lockstep, the tiles descend to their
// leaves, latch the leaves and change them. A tile splits a full leaf without reading its parent.
// Until Parents makes the new leaf a child, links lead to the new leaf. Some operations fail in
// lockstep: their latch is taken, or their leaf lies too far to the right. They are left for a
// Writer.
template <class S, class V, class Past = NoVersions>
struct Lockstep {
  using Kept = typename Past::Kept;
  using L = Lanes<S, true>;
  using N = Node<S, true>;
  using Key = typename S::Key;
  using Sh = Shape<S>;
  static constexpr uint32_t kSlots = Sh::kSlots, kNoIndex = ~0u, kHops = 3, kLeafHops = 6;

  // When a leaf splits, its first kStay slots stay. They are the first pieces of all lanes, without
  // the header, and the second piece of lane 0. The second pieces of the other lanes become the
  // first pieces of the new leaf.
  static constexpr uint32_t kStay = L::kLanes * Sh::kPer;

  // Result of an operation. kLeft: nothing has been done. kDone: it is done. kThin: it is done, and
  // its leaf now has few pairs.
  enum Result : uint32_t { kLeft, kDone, kThin };

  Tree t;
  Grown<S> grown;
  Past past{};
  uint32_t flags = 0;
  int32_t added = 0;      // number of pairs that this tile has added, minus those removed
  // node where the search for the next key begins; that key must not be smaller
  uint32_t from = kRoot;
  uint32_t above = kRoot;  // parent of the leaf that the last search found
  // The leaf that this tile has split last, the new leaf, and the smallest key of the new leaf. A
  // search for a key in the new leaf may find the old leaf.
  uint32_t halved = kNone, half = kNone;
  Key half_low = 0;
  L l{};

  // look runs the lookup of each tile with has_one.
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

  // change runs the operation of each tile with has_one. All lanes of a tile pass the same
  // operation. In the lane with is_mine, `mine` receives whether the key was present, and its
  // value.
  __device__ __forceinline__ Result change(bool has_one, const Task<S>& op, Task<S>& mine, bool is_mine) {
    Leaf f;
    const uint32_t way = this->way(has_one, op.key);
    f.id = way == halved && op.key >= half_low ? half : way;
    N n;
    f.latched = reach(has_one, op.key, f.id, n);
    f.state = n.state(l), f.link = n.link(l);
    uint32_t count = count_of(f.state), below = n.below(l, op.key, count), at;
    Key old;
    const bool there = find(n, op.key, count, at, old), removes = op.kind == kDelete;
    const bool enters = !there && !removes && op.kind != kUpdate, stores = there && !removes && op.kind != kPutNew;
    f.changed = f.latched && (enters || stores || (removes && there));
    f.splits = f.latched && enters && count == kSlots, f.upper = f.splits && below > kStay;
    split(n, f);
    if (f.upper) below -= kStay;
    if (f.splits) count = f.upper ? kSlots - kStay : kStay;
    Kept kept{};
    if constexpr (Past::kKeeps) keep(n, f, count, kept);
    const Key val = there && op.kind != kPut && op.kind != kUpdate ? Key(combine(op.kind, flags, V(old), V(op.value))) : op.value;
    n.set(l, f.latched && stores ? at : kNoIndex, S::pair(op.key, val));
    n.open(l, f.latched && enters ? below : kNoIndex, S::pair(op.key, val));
    n.close(l, f.latched && removes && there ? at : kNoIndex);
    const uint32_t now = count + (f.changed && enters ? 1 : 0) - (f.changed && removes ? 1 : 0);
    write(n, f, now, now > count ? now : count, kept);
    if (f.splits) halved = way, half = f.fresh, half_low = f.low;
    added += int32_t(now - count);
    if (is_mine && f.latched) mine.there = there, mine.value = old;
    return !f.latched ? kLeft : now < count && now < Sh::kMinSlots ? kThin : kDone;
  }

 private:
  // Leaf is the leaf of a key, and the change to that leaf. The flags mean: the tile has latched
  // the leaf, changes its pairs, splits it, and puts the key into the upper half.
  struct Leaf {
    uint32_t id, state, link;
    bool latched, changed, splits, upper;
    uint32_t fresh;  // node of the upper half, if the leaf splits
    Key low;         // smallest key of the upper half
    __device__ __forceinline__ uint32_t target() const { return upper ? fresh : id; }
  };

  // way returns the leaf of a key for each tile with `wants`, as the leaf's parent shows it. The
  // launch changes no inner node, so way reads them without ordering. The search begins at the node
  // of level 2 that the tile's last search passed. The key belongs to that node, or to a node
  // further right on its level. Instead of move number kHops to the right, the search starts over
  // at the root.
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
      leaf = !right && level == 1;  // stays true while other tiles continue
      const uint32_t next = !right ? id : hops == kHops ? kRoot : link;
      at = leaf ? at : next;
    }
    above = at;
    return id;
  }

  // reach latches the leaf of a key for each tile with `wants`. It begins at leaf `id`, which is
  // the key's leaf or lies to the left of it. The same access marks the leaf as changing. A
  // separate store of the mark would need a fence, which takes longer than a concurrent reader now
  // waits. If reach returns false, the tile has no latch.
  __device__ __forceinline__ bool reach(bool wants, Key key, uint32_t& id, N& n) const {
    bool has = false;
#pragma unroll 1
    for (uint32_t hops = 0;; hops++) {
      uint64_t* word = state_word<S>(t, id);
      const bool got = latch(l, word, wants, kLatched | kChanging);
      fence();  // a reader that acquires a piece also reads the mark
      if (hops == 0 || wants) n.load_relaxed(t, id, l.rank);
      const uint32_t state = n.state(l), link = n.link(l);
      const bool right = n.beyond(l, key), leaf = got && level_of(state) == 0 && !(state & kDead);
      if (wants) has = leaf && !right;
      if (got && !has && l.rank == 0) store_release(word, n.piece[0].whole.y & ~(uint64_t(kLatched | kChanging) << 32));
      wants = leaf && right;
      if (!ballot(kAll, wants) || hops == kLeafHops) return has;
      if (wants) id = link;
    }
  }

  // split allocates a new leaf for each tile that splits its leaf. If the key belongs to the lower
  // half, split stores the upper half in the new leaf. Otherwise the tile holds the upper half in
  // its registers from then on.
  __device__ __forceinline__ void split(N& n, Leaf& f) const {
    f.fresh = kNone, f.low = 0;
    if (!ballot(kAll, f.splits)) return;
    f.low = l.share(S::key(n.piece[1].slots[0]), 1);
    f.fresh = grown.bear(t, l, f.splits, f.low, above);
    if (f.splits && !f.upper) {
      if (l.rank == 0) store_relaxed(node_of<S>(t, f.fresh), {n.piece[0].whole.x, uint64_t(state_of(0, kSlots - kStay)) << 32 | f.link});
      if (l.rank != 0) store_relaxed(node_of<S>(t, f.fresh) + l.rank, n.piece[1].whole);
      // contents after the counted slots
      store_relaxed(node_of<S>(t, f.fresh) + L::kLanes + l.rank, n.piece[1].whole);
    }
    if (f.upper && l.rank != 0) n.piece[0].whole = n.piece[1].whole;
  }

  // keep copies each leaf that changes if a snapshot may read it. If the leaf splits, it copies
  // only the half that changes.
  __device__ __forceinline__ void keep(const N& n, const Leaf& f, uint32_t count, Kept& k) {
    const bool leads = f.changed && l.rank == 0;
    if (leads) k = past.of(f.id);
    k.time = l.share(k.time, 0);
    const bool lower = f.splits && !f.upper, copies = f.changed && k.time <= past.p.newest;
    uint32_t id = kNone;
    if (copies && l.rank == 0) id = past.first(lane_index() + block_index());
    id = l.share(id, 0);
    const bool lacks = copies && id == kNone;
    if (ballot(kAll, lacks)) {
      const uint32_t other = take(t, l, lacks);
      id = lacks ? other : id;
    }
    k.copy = id;
    if (leads && f.splits && !(f.upper && copies)) past.begin(f.fresh, k);
    if (!copies) return;
    Word128 first = n.piece[0].whole;
    if (l.rank == 0) {
      past.begin(id, {k.time, uint64_t(f.target()) << 32 | uint32_t(k.links)});
      first = {lower ? uint64_t(f.low) : first.x, uint64_t(state_of(kFreeLevel - 1, count)) << 32 | (lower ? f.fresh : f.link)};
    }
    store_relaxed(node_of<S>(t, id) + l.rank, first);
#pragma unroll
    for (uint32_t p = 1; p < N::kPieces; p++) store_relaxed(node_of<S>(t, id) + p * L::kLanes + l.rank, n.piece[p].whole);
  }

  // find reports whether one of the first `count` slots has a key. It stores the index and the
  // value of that slot.
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

  // write stores the first `slots` slots of each changed leaf, and releases the latches. The header
  // of the lower half makes the upper half reachable.
  __device__ __forceinline__ void write(const N& n, const Leaf& f, uint32_t count, uint32_t slots, const Kept& kept) {
    uint64_t* word = state_word<S>(t, f.id);
    const uint32_t then = f.changed ? next_state(f.state, f.upper ? kStay : count) : f.state & ~(kLatched | kChanging);
    const uint32_t becomes = f.upper ? state_of(0, count) : then;  // of the leaf that gets the key
    uint64_t time = 0;
    bool undated = false;
    if constexpr (Past::kKeeps) {
      undated = kept.copy != kNone && past.outside();
      if (kept.copy != kNone && l.rank == 0) time = past.write(f.target(), kept, becomes);
    }
    if (f.changed) {
      if (f.upper && l.rank == 0)
        store_relaxed(node_of<S>(t, f.fresh), {n.piece[0].whole.x, uint64_t(becomes | (undated ? kLatched : 0)) << 32 | f.link});
#pragma unroll
      for (uint32_t p = 0; p < N::kPieces; p++)
        if (N::number(l.rank, p, 0) < (f.upper ? kSlots : slots)) store_relaxed(node_of<S>(t, f.target()) + p * L::kLanes + l.rank, n.piece[p].whole);
    }
    l.sync();
    if (!f.latched || l.rank != 0) return;
    const uint32_t link = f.splits ? f.fresh : f.link, first = undated && !f.upper ? then | kLatched : then;
    if (f.splits)
      store_release(node_of<S>(t, f.id), {uint64_t(f.low), uint64_t(first) << 32 | link});
    else
      store_release(word, uint64_t(first) << 32 | link);
    if constexpr (Past::kKeeps) {
      if (undated) {  // readable from here on; it has a time before its latch is released
        date(past.p, f.target(), time);
        store_release(state_word<S>(t, f.target()), uint64_t(becomes) << 32 | (f.upper ? f.link : link));
      }
      if (kept.copy != kNone) past.drop(kept);
    }
  }
};

// flag of a row in `left`: the operation is done, but its leaf has few pairs
constexpr uint32_t kMerge = 1u << 31;

// leave lists the row of each lane with `some` for the next launch.
__device__ __forceinline__ void leave(const ChangeParams& p, bool some, uint32_t row) {
  const uint32_t votes = ballot(kAll, some), lane = lane_index();
  if (votes == 0) return;
  uint32_t at = 0;
  if (lane == lowest(votes)) at = add_relaxed(p.left, popcount(votes));
  at = shuffle(kAll, at, lowest(votes)) + popcount(votes & ((1u << lane) - 1));
  if (some) p.left[kLeftHead + at] = row;
}

// Shares assigns runs of neighboring keys to the tiles of a launch. A tile gets adjacent runs, so
// one search begins where the last one ended. The tiles of a warp get runs far apart, because
// adjacent runs would compete for leaves.
struct Shares {
  uint64_t first;  // first run of this tile
  uint32_t each;   // number of runs per tile

  template <class S>
  __device__ __forceinline__ static Shares of(uint64_t n) {
    constexpr uint32_t lanes = Shape<S>::kLanes;
    const uint64_t tiles = threads_in_grid() / lanes, runs = (n + lanes - 1) / lanes, each = (runs + tiles - 1) / tiles;
    const uint64_t tile = lane_index() / lanes * (threads_in_grid() / kWarp) + thread_index() / kWarp;
    return {tile * each, uint32_t(each)};
  }
};

// together_run runs the operations in one run of each tile, one after the other.
template <class S, class K, class V, class T>
__device__ __forceinline__ void together_run(const ChangeParams& p, T& all, uint64_t run, uint64_t n) {
  constexpr uint32_t lanes = Shape<S>::kLanes;
  const uint64_t i = run * lanes + all.l.rank;
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
    if (!p.states) all.from = kRoot;
    const typename T::Result r = all.change(changes, op, task, own);
    if (changes && own) result = r;
  }
  leave(p, mine && result != T::kDone, uint32_t(i) | (result == T::kThin ? kMerge : 0));
  if (!p.states && mine && result != T::kLeft) report<S, V>(p, i, task);
}

// together runs the operations of a batch. It lists the operations that it leaves for the next
// launch.
template <class S, class K, class V>
__device__ __forceinline__ void together(const ChangeParams& p) {
  const uint64_t n = p.count ? *p.count : p.n;
  const Shares share = Shares::of<S>(n);
  Lockstep<S, V> all{p.tree, Grown<S>::of(p)};
  all.flags = p.flags;
#pragma unroll 1
  for (uint32_t k = 0; k < share.each; k++) together_run<S, K, V>(p, all, share.first + k, n);
  count_added(p.tree, all);
}

// left_over runs an operation, or a merge, that together has left.
template <class S, class K, class V, class Writer>
__device__ __forceinline__ void left_over(const ChangeParams& p, Writer& w, uint64_t at) {
  const uint32_t row = p.left[kLeftHead + at], i = row & ~kMerge;
  Task<S> mine = task<S, K, V>(p, i, w.l.rank == 0);
  if (row & kMerge) {
    if (w.stock()) w.merge(w.l.share(mine.key, 0));
    return;
  }
  w.run(mine, 0, 1);
  if (!p.states && w.l.rank == 0) report<S, V>(p, i, mine);
}

}  // namespace weft::btree
