// After all leaves of a batch have changed, the new nodes become children of their parents, level
// by level. The tiles of a warp run in lockstep. Until then, links lead to the new nodes, so
// readers find all pairs.
#pragma once

#include "change.cuh"

namespace weft::btree {

// latch tries to take the latch of a node for each tile with `wants`. It reports whether the tile
// now has the latch. It sets `bits` in the state, which include the latched bit. If the latch was
// taken before, all of these bits were set before, because all callers in a launch pass the same
// bits.
template <class L>
__device__ __forceinline__ bool latch(const L& l, uint64_t* word, bool wants, uint32_t bits) {
  uint32_t taken = 0;
  l.sync();  // any lane may have acquired the path to this node
  if (wants && l.rank == 0) taken = !(or_acquire(word, uint64_t(bits) << 32) >> 32 & kLatched);
  l.sync();
  return l.share(taken, 0);
}

// take allocates a node for each tile with `asks`. All tiles of a warp call it.
template <class L>
__device__ __forceinline__ uint32_t take(const Tree& t, const L& l, bool asks) {
  const uint32_t votes = ballot(kAll, asks && l.rank == 0), lane = lane_index();
  uint32_t first = 0, id = kNone;
  if (lane == lowest(votes)) first = add_relaxed(&control_of(t)->taken, popcount(votes));
  first = shuffle(kAll, first, lowest(votes));
  if (asks && l.rank == 0) id = numbered(t, first + popcount(votes & ((1u << lane) - 1)));
  return l.share(id, 0);
}

// Grown lists new nodes that are not yet children of their parents. Each entry is the slot that the
// node will have in its parent. The leaves come first, then the other levels in ascending order.
template <class S>
struct Grown {
  using Word = typename S::Word;
  Word* slots;
  uint32_t* counts;  // number of new nodes per level
  uint32_t* above;   // for each new leaf, its parent or a node left of the parent
  // Copies of fields of Control. `taken` is in the same cache line, and many atomics access it.
  uint32_t free, top;

  __device__ __forceinline__ static Grown of(const ChangeParams& p) {
    const Control* c = control_of(p.tree);
    return {static_cast<Word*>(p.grown), p.left + 1, p.above, c->free, c->top};
  }
  // first returns the index of the first node of a level. The counts of all lower levels must be
  // final.
  __device__ __forceinline__ uint32_t first(uint32_t level) const {
    uint32_t n = 0;
    for (uint32_t i = 0; i < level; i++) n += load_relaxed(counts + i);
    return n;
  }
  // bear allocates and lists a new leaf for each tile with `splits`. Both atomics are in flight at
  // the same time.
  template <class L>
  __device__ __forceinline__ uint32_t bear(const Tree& t, const L& l, bool splits, typename S::Key low, uint32_t from) const {
    const uint32_t votes = ballot(kAll, splits && l.rank == 0), lane = lane_index(), before = popcount(votes & ((1u << lane) - 1));
    uint32_t first = 0, at = 0, id = kNone;
    if (lane == lowest(votes)) {
      first = add_relaxed(&control_of(t)->taken, popcount(votes));
      at = add_relaxed(counts, popcount(votes));
    }
    first = shuffle(kAll, first, lowest(votes)), at = shuffle(kAll, at, lowest(votes));
    if (splits && l.rank == 0) {
      id = numbered(t, first + before, free, top);
      store_relaxed(slots + at + before, S::pair(low, typename S::Key(id)));
      store_relaxed(above + at + before, from);
    }
    return l.share(id, 0);
  }
  // push lists a new inner node for each lane with `some`. All lanes of a warp call it.
  __device__ __forceinline__ void push(uint32_t level, bool some, Word slot) const {
    const uint32_t votes = ballot(kAll, some), lane = lane_index();
    if (votes == 0) return;
    uint32_t at = 0;
    if (lane == lowest(votes)) at = add_relaxed(counts + level, popcount(votes));
    at = shuffle(kAll, at, lowest(votes)) + popcount(votes & ((1u << lane) - 1));
    if (some) store_relaxed(slots + first(level) + at, slot);
  }
};

// Parents is a warp of tiles that insert new nodes into their parents. Each tile has one new node.
// Only the nodes of one level change at a time, so no tile needs a second latch.
template <class S, class V>
struct Parents {
  using L = Lanes<S, true>;
  using N = Node<S, true>;
  using Key = typename S::Key;
  using Word = typename S::Word;
  using Sh = Shape<S>;
  static constexpr uint32_t kSlots = Sh::kSlots;

  Tree t;
  Grown<S> grown;
  uint32_t level;  // level of the parents
  L l{};

  // adopt moves each tile one step from node `at` toward the parent of its new node. If the tile is
  // at the parent, adopt inserts the new node. It reports whether it has inserted that node.
  __device__ __forceinline__ bool adopt(bool has_one, Word slot, uint32_t& at) {
    const Key key = S::key(slot);
    N n;
    l.sync();
    n.load_inner(t, at, l.rank);
    const uint32_t here = level_of(n.state(l)), link = n.link(l);
    const bool right = n.beyond(l, key);
    Key unused;
    const uint32_t child = n.child(l, key, unused);
    const bool wants = has_one && here == level && !right;
    const uint32_t id = at;
    // The level of the root may have changed since the tile passed the root.
    if (!wants) at = here < level ? kRoot : right ? link : child;
    if (!ballot(kAll, wants)) return false;
    const bool latched = latch(l, state_word<S>(t, id), wants, kLatched);
    if (!ballot(kAll, latched)) pause(100);
    n.load_relaxed(t, id, l.rank);
    const uint32_t state = n.state(l);
    const bool beyond = n.beyond(l, key), is_it = latched && level_of(state) == level && !beyond;
    const bool full = count_of(state) == kSlots, splits = is_it && full && id != kRoot;
    if (ballot(kAll, splits)) split(splits, n, id, state);
    if (is_it && !splits) {
      if (full) {
        Writer<S, V> w{t};
        typename Writer<S, V>::Held h;
        w.load(kRoot, h);
        w.cut_root(h);
      } else {
        enter(n, id, state, slot);
      }
    }
    if (latched && !is_it) free(id, n.piece[0].whole.y & ~(uint64_t(kLatched) << 32));
    return is_it && !full;
  }

 private:
  __device__ __forceinline__ void free(uint32_t id, uint64_t word) const {
    if (l.rank == 0) store_release(state_word<S>(t, id), word);
  }

  // enter stores a slot after the other slots of a node, and releases the node's latch.
  __device__ __forceinline__ void enter(const N& n, uint32_t id, uint32_t state, Word slot) const {
    if (l.rank != 0) return;
    Way<S>::release(slot_of<S>(t, id, count_of(state)), slot);
    free(id, uint64_t(next_state(state, count_of(state) + 1)) << 32 | uint32_t(n.piece[0].whole.y));
  }

  // split moves half of the slots of each tile's node to a new node, and releases the old node's
  // latch.
  __device__ __forceinline__ void split(bool splits, const N& n, uint32_t id, uint32_t state) const {
    uint32_t r[N::kPieces][N::kPer];
    n.ranks(l, kSlots, false, r);
    const Key low = n.key_at(l, r, Sh::kHalf);
    const uint32_t fresh = take(t, l, splits), then = next_state(state, Sh::kHalf);
    if (splits) {
      n.move(t, l, r, Sh::kHalf, kSlots, fresh);
      if (l.rank == 0)
        Way<S>::release(node_of<S>(t, fresh), {n.piece[0].whole.x, uint64_t(state_of(level, kSlots - Sh::kHalf)) << 32 | uint32_t(n.piece[0].whole.y)});
    }
    l.sync();
    if (splits && l.rank == 0) Way<S>::release(node_of<S>(t, id), {uint64_t(low), uint64_t(then | kLatched) << 32 | fresh});
    l.sync();
    if (splits) n.move(t, l, r, 0, Sh::kHalf, id);
    l.sync();
    if (splits) free(id, uint64_t(then) << 32 | fresh);
    grown.push(level, splits && l.rank == 0, S::pair(low, Key(fresh)));
  }
};

struct AdoptParams {
  ChangeParams change;
  uint32_t level;  // first level of new nodes
  uint32_t last;   // last level; if it differs from `level`, the grid is one block
};

// adopt makes the new nodes of levels [level,last] children of their parents.
template <class S, class V>
__device__ __forceinline__ void adopt(const AdoptParams& p) {
  constexpr uint32_t lanes = Shape<S>::kLanes, tiles = kWarp / lanes;
  const Grown<S> grown = Grown<S>::of(p.change);
  for (uint32_t level = p.level; level <= p.last; level++) {
    const uint32_t first = grown.first(level), n = load_relaxed(grown.counts + level);
    Parents<S, V> all{p.change.tree, grown, level + 1};
    for (uint64_t base = thread_index() / kWarp * tiles; base < n; base += threads_in_grid() / lanes) {
      const uint64_t i = base + lane_index() / lanes;
      bool has_one = i < n;
      const typename S::Word slot = load_relaxed(grown.slots + first + (has_one ? i : 0));
      uint32_t at = level == 0 && has_one ? load_relaxed(grown.above + i) : kRoot;
      while (ballot(kAll, has_one)) {
        if (all.adopt(has_one, slot, at)) has_one = false;
      }
    }
    sync_block();
  }
}

}  // namespace weft::btree
