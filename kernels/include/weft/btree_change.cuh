// Changes of a B-link tree by tiles of lanes: latches, splits and merges. btree/layout.go describes
// the protocol, and shows that it cannot deadlock.
#pragma once

#include "btree_node.cuh"
#include "inorder.cuh"

namespace weft::btree {

using inorder::kUpdate;

// Task is an operation of a lane and its result.
template <class S>
struct Task {
  typename S::Key key, value;  // out: value is the previous value
  uint32_t kind;               // Kind
  bool there;                  // out: the key was present before
  bool refused = false;        // out: the key was absent, and may not be inserted
};

// NoVersions is the Past of a Writer on a tree without versions. For a tree with versions it is
// Versioned (btree_past.cuh).
struct NoVersions {
  static constexpr bool kKeeps = false;
  struct Kept {};
};

// Writer is a tile that changes a tree.
template <class S, class V, class Past = NoVersions>
struct Writer {
  using L = Lanes<S, false>;
  using N = Node<S, false>;
  using Key = typename S::Key;
  using Word = typename S::Word;
  using Sh = Shape<S>;
  using Kept = typename Past::Kept;
  static constexpr uint32_t kSlots = Sh::kSlots, kPer = Sh::kPer, kPieces = Sh::kPieces;

  Tree t;
  Past past{};
  L l{};
  uint32_t flags = 0;      // flags of the batch, for values that are combined
  uint32_t spare = kNone;  // a node that was taken and is not used yet
  int32_t added = 0;       // number of pairs that this tile has added, minus those removed
  uint32_t tries = 0;      // number of failed attempts in a row
  bool enters = true;      // absent keys may be inserted

  // Held is a node that this tile has latched, with its contents. Lane 0 has the header.
  struct Held {
    uint32_t id, state;
    N n;
    __device__ __forceinline__ uint32_t link() const { return uint32_t(n.piece[0].whole.y); }
    __device__ __forceinline__ uint64_t high() const { return n.piece[0].whole.x; }
    __device__ __forceinline__ uint32_t count() const { return count_of(state); }
    __device__ __forceinline__ uint32_t level() const { return level_of(state); }
  };

  // ---- latches ---------------------------------------------------------------

  __device__ __forceinline__ bool latch(uint32_t id) {
    uint32_t taken = 0;
    l.sync();  // any lane may have acquired the path to this node
    if (l.rank == 0) taken = Way<S>::latch(state_word<S>(t, id));
    l.sync();
    return l.share(taken, 0);
  }

  __device__ __forceinline__ void load(uint32_t id, Held& h) {
    h.id = id;
    h.n.load_relaxed(t, id, l.rank);
    h.state = h.n.state(l);
  }

  // hold latches a node and reads it. It returns false if it cannot take the latch.
  __device__ __forceinline__ bool hold(uint32_t id, Held& h) {
    if (!latch(id)) return false;
    load(id, h);
    return true;
  }

  // free stores the state of a latched node. If the state has no latched bit, this releases the
  // latch.
  __device__ __forceinline__ void free(const Held& h, uint32_t state) {
    l.sync();
    if (l.rank == 0) Way<S>::release(state_word<S>(t, h.id), uint64_t(state) << 32 | h.link());
  }
  __device__ __forceinline__ void free(const Held& h) { free(h, h.state & ~kLatched); }

  // settle moves to the right until the key belongs to the latched node. It returns false if it
  // gave up and released the latch.
  __device__ __forceinline__ bool settle(Held& h, Key key) {
    while (true) {
      if (h.state & kDead) break;
      if (!h.n.beyond(l, key)) return true;
      const uint32_t next = h.n.link(l);
      if (!latch(next)) break;
      free(h);
      load(next, h);
    }
    free(h);
    return false;
  }

  // rest waits before a new attempt.
  __device__ __forceinline__ void rest() { Way<S>::rest(tries++); }

  // ---- descending ------------------------------------------------------------

  // down moves from the root to the node of a level for a key, and also finds the likely parent of
  // that node. It may not read the node itself, so the node's level may differ while the root is
  // split. If `grows` is set, down splits full nodes. It returns false after a split or a
  // concurrent change. The caller then starts over.
  __device__ __forceinline__ bool down(Key key, uint32_t level, bool grows, uint32_t& id, uint32_t& parent) {
    id = kRoot;
    parent = kNone;
    while (true) {
      N n;
      uint32_t state;
      read(t, l, id, false, n, state);
      const uint32_t here = level_of(state);
      if (here < level) return false;
      const bool right = n.beyond(l, key);
      if (right) {
        id = n.link(l);
        continue;
      }
      if (here == level) return true;
      if (grows && count_of(state) == kSlots) {
        split(id, parent, key);
        return false;
      }
      Key low;
      parent = id;
      id = n.child(l, key, low);
      if (here == level + 1) return true;
    }
  }

  // ---- new nodes -------------------------------------------------------------

  // take returns a node that no other thread can reach.
  __device__ __forceinline__ uint32_t take() {
    if (l.rank == 0) {
      if constexpr (Past::kKeeps) spare = past.first(lane_index() + block_index());
      if (spare == kNone) spare = take_new();
    }
    return l.share(spare, 0);
  }
  __device__ __forceinline__ uint32_t take_new() const { return numbered(t, add_relaxed(&control_of(t)->taken, 1u)); }
  __device__ __forceinline__ uint32_t fresh() {
    if (spare == kNone) spare = take();
    return spare;
  }

  // stock reserves a node for a copy. Only users' kernels need this, since they share the free
  // nodes. It returns false if no node is left.
  __device__ __forceinline__ bool stock() {
    if constexpr (Past::kKeeps) {
      if (!past.shares() || spare != kNone) return true;
      if (l.rank == 0) {
        spare = past.first(lane_index() + block_index());
        if (spare == kNone) {
          const uint32_t i = allocate_nodes(1);
          if (i != kNone) spare = numbered(t, i);
        }
      }
      spare = l.share(spare, 0);
      return spare != kNone;
    }
    return true;
  }
  // allocate_nodes takes n new nodes if enough nodes are left for splits. It returns the number of
  // the first node, or kNone. One atomic addition takes all nodes. A loop of compare-and-swaps
  // would take as many rounds as the device has tiles. Threads that check at the same moment may
  // take a few nodes too many. The host has reserved nodes for this case (residentTiles).
  __device__ __forceinline__ uint32_t allocate_nodes(uint32_t n) const {
    Control* c = control_of(t);
    const uint32_t most = c->free + (t.nodes - c->top);
    return load_relaxed(&c->taken) + past.p.reserve + n > most ? kNone : add_relaxed(&c->taken, n);
  }

  // more adds a spare node to the block for each lane with `asks`, as long as nodes are left. All
  // lanes of a warp call it.
  __device__ __forceinline__ void more(bool asks) {
    uint32_t id = asks && past.p.stocked ? reuse(past.p, lane_index() + block_index()) : kNone;
    const uint32_t lack = ballot(kAll, asks && id == kNone);
    if (lack != 0) {
      uint32_t first = kNone;
      if (lane_index() == lowest(lack)) first = allocate_nodes(popcount(lack));
      first = shuffle(kAll, first, lowest(lack));
      if (first != kNone && asks && id == kNone) {
        id = numbered(t, first + popcount(lack & ((1u << lane_index()) - 1)));
        mark_free(id);
      }
    }
    if (id != kNone) past.block.keep(id);
  }
  // mark_free marks a taken but unused node as free.
  __device__ __forceinline__ void mark_free(uint32_t id) {
    store_relaxed(state_word<S>(t, id), uint64_t(state_of(kFreeLevel - 1, 0)) << 32 | kNone);
    past.reused--;
  }
  // leave ends the block's session. This tile leaves its unused node to the block.
  __device__ __forceinline__ void leave() {
    const bool some = l.rank == 0 && spare != kNone;
    if (some) mark_free(spare);
    const bool kept = past.block.leave(some ? spare : kNone);
    if (some && !kept) past.reused++;
    if (l.share(uint32_t(kept), 0)) spare = kNone;
  }

  // done marks a taken but unused node as dead, so that it is reclaimed later.
  __device__ __forceinline__ void done() {
    if (spare == kNone) return;
    if (l.rank == 0) {
      store_relaxed(state_word<S>(t, spare), uint64_t(kDead) << 32 | kNone);
      add_relaxed(&control_of(t)->dead, 1u);
    }
    spare = kNone;
  }

  // ---- splits ----------------------------------------------------------------

  // head stores a header in lane 0, after the earlier stores of all lanes.
  __device__ __forceinline__ void head(uint32_t id, uint64_t high, uint32_t link, uint32_t state) {
    l.sync();
    if (l.rank == 0) Way<S>::release(node_of<S>(t, id), Word128{high, uint64_t(state) << 32 | link});
  }

  // split splits a node, if it is still full.
  __device__ __forceinline__ void split(uint32_t id, uint32_t parent, Key key) {
    Held h;
    if (!hold(id, h)) return rest();
    if (!settle(h, key)) return rest();
    if (h.count() < kSlots) return free(h);
    cut(h, parent, key);
  }

  // cut splits a full node that covers the key, and releases its latch. It gives up if the latch of
  // the parent is taken. It also gives up if `parent` is full, or is not the parent of the node.
  __device__ __forceinline__ void cut(Held& h, uint32_t parent, Key key) {
    if (h.id == kRoot) return cut_root(h);
    Held p;
    if (parent == kNone || !hold(parent, p)) {
      free(h);
      return rest();
    }
    if (!settle(p, key)) {
      free(h);
      return rest();
    }
    uint32_t at;
    if (p.level() != h.level() + 1 || p.count() == kSlots || !leads(p, h.id, at)) {
      free(p);
      return free(h);
    }
    divide(h, p);
  }

  // divide splits a full node. Its parent has a free slot. Both nodes are latched, and divide
  // releases the latches.
  __device__ __forceinline__ void divide(Held& h, Held& p) {
    uint32_t r[kPieces][kPer];
    h.n.ranks(l, h.count(), h.level() == 0, r);
    const Key low = h.n.key_at(l, r, Sh::kHalf);
    const uint32_t right = fresh();
    spare = kNone;
    if constexpr (Past::kKeeps) share_past(h, right);
    h.n.move(t, l, r, Sh::kHalf, kSlots, right);
    head(right, h.high(), h.link(), state_of(h.level(), kSlots - Sh::kHalf));
    // From here on readers can reach the right node. The parent does not lead to that node yet, so
    // this tile keeps the latch of the left node.
    const uint32_t state = next_state(h.state, Sh::kHalf);
    head(h.id, low, right, state | kLatched);
    if (h.level() != 0) h.n.move(t, l, r, 0, Sh::kHalf, h.id);
    if (l.rank == 0) Way<S>::release(slot_of<S>(t, p.id, p.count()), S::pair(low, right));
    free(p, next_state(p.state, p.count() + 1));
    l.sync();
    if (l.rank == 0) Way<S>::release(state_word<S>(t, h.id), uint64_t(state) << 32 | right);
  }

  // cut_root moves the slots of the root to two new nodes.
  __device__ __forceinline__ void cut_root(Held& h) {
    uint32_t r[kPieces][kPer];
    h.n.ranks(l, h.count(), false, r);
    const Key first = h.n.key_at(l, r, 0), low = h.n.key_at(l, r, Sh::kHalf);
    const uint32_t left = fresh();
    spare = kNone;
    const uint32_t right = fresh();
    spare = kNone;
    h.n.move(t, l, r, Sh::kHalf, kSlots, right);
    head(right, 0, kNone, state_of(h.level(), kSlots - Sh::kHalf));
    h.n.move(t, l, r, 0, Sh::kHalf, left);
    head(left, low, right, state_of(h.level(), Sh::kHalf));
    l.sync();
    h.n.each(l.rank, [&](uint32_t, uint32_t, uint32_t number, Word) {
      if (number < kSlots) Way<S>::release(slot_of<S>(t, kRoot, number), number == 1 ? S::pair(low, right) : S::pair(first, left));
    });
    free(h, next_state(h.state, 2) + (1 << kLevelShift));
  }

  // leads reports whether an inner node has a child, and stores the number of its slot in `at`.
  __device__ __forceinline__ bool leads(const Held& p, uint32_t child, uint32_t& at) const {
    bool mine = false;
    p.n.each(l.rank, [&](uint32_t, uint32_t, uint32_t number, Word w) {
      if (number < p.count() && uint32_t(S::value(w)) == child) mine = true, at = number;
    });
    const uint32_t who = l.vote(mine);
    if (who == 0) return false;
    at = l.share(at, lowest(who));
    return true;
  }

  // ---- merges ----------------------------------------------------------------

  // merge merges the leaf of a key with a neighbor under the same parent, if both fit into one
  // node. It then does the same on the levels above. It gives up if it finds another tile at work.
  __device__ __forceinline__ void merge(Key key) {
    for (uint32_t level = 0; level < kFreeLevel; level++) {
      uint32_t parent, unused;
      if (!down(key, level + 1, false, parent, unused)) return;
      N n;
      uint32_t state;
      read(t, l, parent, false, n, state);
      Key low, before;
      uint32_t left = n.child(l, key, low);
      bool larger = false;
      n.each(l.rank, [&](uint32_t, uint32_t, uint32_t number, Word w) { larger = larger || (number < kSlots && S::key(w) > low); });
      if (l.vote(larger) == 0) {  // the last child: merge it with the one before
        if (low == 0) return;
        left = n.child(l, low - 1, before);
        if (left == 0) return;
      }
      if (!unite(left, parent, level) || parent == kRoot) return;
    }
  }

  // unite merges a node with the next one. It reports whether the parent then has few children.
  __device__ __forceinline__ bool unite(uint32_t left, uint32_t parent, uint32_t level) {
    Held a, b, p;
    if (!hold(left, a)) return false;
    const uint32_t right = a.n.link(l);
    if ((a.state & kDead) || a.level() != level || right == kNone || !hold(right, b)) {
      free(a);
      return false;
    }
    const uint32_t sum = a.count() + b.count();
    const bool fits = sum <= Sh::kMaxMerged && (a.count() < Sh::kMinSlots || b.count() < Sh::kMinSlots);
    if (!fits || !hold(parent, p)) {
      free(b);
      free(a);
      return false;
    }
    uint32_t unused, at;
    if ((p.state & kDead) || p.level() != level + 1 || !leads(p, left, unused) || !leads(p, right, at)) {
      free(p);
      free(b);
      free(a);
      return false;
    }
    const uint32_t was = a.count();
    if constexpr (Past::kKeeps)
      unite_past(a, b);
    else if (level == 0)
      mark(a);
    b.n.each(l.rank, [&](uint32_t, uint32_t, uint32_t number, Word w) {
      if (number < b.count()) Way<S>::release(slot_of<S>(t, left, was + number), w);
    });
    const uint32_t state = next_state(a.state, sum), link = b.n.link(l);
    head(left, b.high(), b.link(), state | kLatched);
    head(right, b.high(), level == 0 ? left : b.link(), next_state(b.state, b.count()) | kDead);
    const Word last = p.n.word(l, p.count() - 1), first = p.n.word(l, 0);
    if (l.rank == 0) {
      Way<S>::release(slot_of<S>(t, p.id, at), last);
      Way<S>::release(slot_of<S>(t, p.id, p.count() - 1), first);
      add_relaxed(&control_of(t)->dead, 1u);
    }
    free(p, next_state(p.state, p.count() - 1));
    l.sync();
    if (l.rank == 0) Way<S>::release(state_word<S>(t, left), uint64_t(state) << 32 | link);
    return p.count() - 1 < Sh::kMinSlots;
  }

  // ---- leaves ----------------------------------------------------------------

  // mark marks a leaf as changing for readers, before any other store to it.
  __device__ __forceinline__ void mark(const Held& h) {
    if (l.rank == 0) store_relaxed(state_word<S>(t, h.id), uint64_t(h.state | kLatched | kChanging) << 32 | h.link());
    l.sync();
  }

  // write stores the first `slots` slots of a leaf with changed pairs, and releases its latch.
  __device__ __forceinline__ void write(const Held& h, uint32_t count, uint32_t slots) {
    if constexpr (Past::kKeeps) {
      const Kept k = keep(h.id);
      mark(h);
      if (k.copy != kNone) return write_kept(h, count, slots, k);
    } else {
      mark(h);
    }
    store(h, slots);
    free(h, next_state(h.state, count));
  }
  __device__ __forceinline__ void store(const Held& h, uint32_t slots) {
#pragma unroll
    for (uint32_t p = 0; p < kPieces; p++)
      if (N::number(l.rank, p, 0) < slots) Way<S>::release(node_of<S>(t, h.id) + p * L::kLanes + l.rank, h.n.piece[p].whole);
  }

  // ---- the past --------------------------------------------------------------

  // share_past copies the past of a split leaf to the new right node. The old version of the leaf
  // before the split is the old version of both nodes, under one time.
  __device__ __forceinline__ void share_past(const Held& h, uint32_t right) {
    if (h.level() == 0 && l.rank == 0) past.begin(right, past.of(h.id));
  }

  // copy copies the stored contents of a leaf to another node, for readers of the old version.
  __device__ __forceinline__ void copy(uint32_t id, Kept& k) {
    N n;
    n.load_relaxed(t, id, l.rank);
    k.copy = fresh();
    spare = kNone;
    if (l.rank == 0) {
      uint64_t& y = n.piece[0].whole.y;
      const uint32_t state = state_of(kFreeLevel - 1, count_of(uint32_t(y >> 32)));
      y = uint64_t(state) << 32 | uint32_t(y);
      past.begin(k.copy, {k.time, uint64_t(id) << 32 | uint32_t(k.links)});
    }
#pragma unroll
    for (uint32_t p = 0; p < kPieces; p++) store_relaxed(node_of<S>(t, k.copy) + p * L::kLanes + l.rank, n.piece[p].whole);
    l.sync();
  }

  // keep copies a leaf if a snapshot may read it.
  __device__ __forceinline__ Kept keep(uint32_t id) {
    Kept k = past_of(id);
    if (k.time <= past.p.newest) copy(id, k);
    return k;
  }
  __device__ __forceinline__ Kept past_of(uint32_t id) const {
    Kept k;
    if (l.rank == 0) k = past.of(id);
    k.time = l.share(k.time, 0), k.links = l.share(k.links, 0);
    return k;
  }

  // write_kept is write for a leaf that has been copied and marked.
  __device__ __forceinline__ void write_kept(const Held& h, uint32_t count, uint32_t slots, const Kept& k) {
    const uint32_t state = next_state(h.state, count);
    uint64_t time = 0;
    if (l.rank == 0) time = past.write(h.id, k, state);
    store(h, slots);
    if (past.outside()) {  // readable from here on; it has a time before its latch is released
      free(h, state | kLatched);
      if (l.rank == 0) date(past.p, h.id, time);
    }
    free(h, state);
    if (l.rank == 0) past.drop(k);
  }

  // unite_past sets the time of two leaves that are merged to the later of their times, and marks
  // the left leaf as changing. From then on, readers find the pairs of both leaves together only
  // under that time. The previous version of the older leaf stays readable.
  __device__ __forceinline__ void unite_past(const Held& a, const Held& b) {
    if (a.level() != 0) return;
    Kept ka = past_of(a.id), kb = past_of(b.id);
    const uint64_t time = ka.time > kb.time ? ka.time : kb.time;
    if (ka.time < time && ka.time <= past.p.newest) copy(a.id, ka);
    if (kb.time < time && kb.time <= past.p.newest) copy(b.id, kb);
    mark(a);
    if (l.rank != 0) return;
    past.lead(a.id, ka, time);
    past.lead(b.id, kb, time);
    if (ka.copy != kNone) past.drop(ka);
    if (kb.copy != kNone) past.drop(kb);
  }

  // act runs one operation on a leaf in registers. It returns false if the leaf has no free slot
  // for an insertion. It refuses to insert an absent key if `enters` is false.
  __device__ __forceinline__ bool act(Held& h, const Task<S>& op, uint32_t& count, bool& changed, Task<S>& mine, bool is_mine) {
    uint32_t at = 0;
    const bool there = h.n.has(l, op.key, count, at);
    const Key old = there ? S::value(h.n.word(l, at)) : Key(0);
    if (op.kind == kDelete) {
      if (there) h.n.close(l, at), count--, added--, changed = true;
    } else if (!there && op.kind != kUpdate && !enters) {
      if (is_mine) mine.refused = true;
    } else if (there ? op.kind != kPutNew : op.kind != kUpdate) {
      if (!there && count == kSlots) return false;
      if (there) {
        h.n.set(l, at, S::pair(op.key, op.kind == kPut || op.kind == kUpdate ? op.value : Key(combine(op.kind, flags, V(old), V(op.value)))));
      } else {
        h.n.open(l, h.n.below(l, op.key, count), S::pair(op.key, op.value));
        count++, added++;
      }
      changed = true;
    }
    if (is_mine) mine.there = there, mine.value = old;
    return true;
  }

  // visit runs the operations of lanes [at,n) that belong to one leaf, and returns the first lane
  // with an operation left. It sets `few` if the leaf now has few pairs.
  __device__ __forceinline__ uint32_t visit(uint32_t leaf, uint32_t parent, uint32_t at, uint32_t n, Task<S>& mine, bool& few) {
    Held h;
    few = false;
    if (!hold(leaf, h)) return at;
    Task<S> op;
    op.key = l.share(mine.key, at);
    if (!settle(h, op.key)) return at;
    if (h.level() != 0) {  // the root was being split when the path led here
      free(h);
      return at;
    }
    uint32_t count = h.count();
    bool changed = false, full = false;
    const uint32_t was = count;
    for (; at < n; at++) {
      op.key = l.share(mine.key, at);
      if (h.n.beyond(l, op.key)) break;
      op.kind = l.share(mine.kind, at), op.value = l.share(mine.value, at);
      if (op.kind == kNone) continue;
      if (op.kind == kGet) break;
      if (full = !act(h, op, count, changed, mine, l.rank == at); full) break;
    }
    few = changed && count < was && count < Sh::kMinSlots;
    if (changed)
      write(h, count, count > was ? count : was);
    else if (full)
      cut(h, parent, op.key);
    else
      free(h);
    return at;
  }

  // lookup finds a key without latches.
  __device__ __forceinline__ void lookup(Key key, Task<S>& mine, bool is_mine) {
    Search<S, false> s;
    N n;
    uint32_t state, at = 0;
    while (!s.step(t, l, key, n, state)) {
    }
    const bool there = n.has(l, key, count_of(state), at);
    const Key val = there ? S::value(n.word(l, at)) : Key(0);
    if (is_mine) mine.there = there, mine.value = val;
  }

  // run runs the operations of lanes [at,n). Their keys must ascend.
  __device__ __forceinline__ void run(Task<S>& mine, uint32_t at, uint32_t n) {
    while (at < n) {
      const uint32_t kind = l.share(mine.kind, at);
      const Key key = l.share(mine.key, at);
      if (kind == kNone || kind == kGet) {
        if (kind == kGet) lookup(key, mine, l.rank == at);
        at++;
        continue;
      }
      uint32_t leaf, parent;
      if (!down(key, 0, kind != kDelete && enters, leaf, parent)) continue;
      bool few;
      const uint32_t next = visit(leaf, parent, at, n, mine, few);
      if (Way<S>::kMerges && few && stock()) merge(key);
      if (next == at) rest();
      else tries = 0;
      at = next;
    }
  }
};

}  // namespace weft::btree
