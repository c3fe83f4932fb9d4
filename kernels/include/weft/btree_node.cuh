// Nodes of a B-link tree, and the lanes that read them. The twin btree/layout.go describes the
// layout, the rules and the protocol.
#pragma once

#include "change.cuh"
#include "slot.cuh"

namespace weft::btree {

constexpr uint32_t kNone = ~0u;        // no node
constexpr uint32_t kRoot = 0;          // never a leaf
constexpr uint64_t kControlBytes = 4096;

// Bits of a state.
constexpr uint32_t kLatched = 1, kChanging = 2, kDead = 4;
constexpr uint32_t kCountShift = 3, kCountMask = 31;
constexpr uint32_t kLevelShift = 8, kLevelMask = 15;
constexpr uint32_t kVersion = 1 << 12;  // each change adds this
constexpr uint32_t kFreeLevel = kLevelMask;

__device__ __forceinline__ uint32_t count_of(uint32_t state) { return state >> kCountShift & kCountMask; }
__device__ __forceinline__ uint32_t level_of(uint32_t state) { return state >> kLevelShift & kLevelMask; }
__device__ __forceinline__ uint32_t state_of(uint32_t level, uint32_t count) {
  return level << kLevelShift | count << kCountShift;
}
// next_state returns the state after a change: the next version, a new count, and neither the
// latched nor the changing bit.
__device__ __forceinline__ uint32_t next_state(uint32_t state, uint32_t count) {
  return (state & ~(kLatched | kChanging | kCountMask << kCountShift)) + kVersion + (count << kCountShift);
}

// Control lies before the nodes.
struct Control {
  Counters counters;
  uint32_t top, free, taken, dead;
};

// Tree describes the memory of a tree.
struct Tree {
  char* memory;           // Control, then the nodes
  const uint32_t* freed;  // numbers of free nodes
  uint64_t flip;          // XOR with flip turns keys into unsigned numbers in key order
  uint32_t nodes;         // number of allocated nodes
  uint32_t unused;
};
__device__ __forceinline__ Control* control_of(const Tree& t) { return reinterpret_cast<Control*>(t.memory); }

// Alone marks a slot type for nodes that one lane reads without other lanes.
template <class S>
struct Alone : S {};

template <class S>
constexpr uint32_t kPiecesOf = 2;
template <class S>
constexpr uint32_t kPiecesOf<Alone<S>> = sizeof(typename S::Word) == 8 ? 8 : 16;

// Shape is the geometry of a node. kLanes lanes read a node as vectors of 16 bytes, two per lane.
// With Alone, one lane reads all vectors. The first vector is the header.
template <class S>
struct Shape {
  static constexpr uint32_t kSlotBytes = sizeof(typename S::Word);
  static constexpr uint32_t kNodeBytes = kSlotBytes == 8 ? 128 : 256;
  static constexpr uint32_t kSlots = (kNodeBytes - 16) / kSlotBytes;
  static constexpr uint32_t kPer = 16 / kSlotBytes;  // slots per vector
  static constexpr uint32_t kPieces = kPiecesOf<S>;  // vectors per lane
  static constexpr uint32_t kLanes = kNodeBytes / 16 / kPieces;
  static constexpr uint32_t kHalf = kSlots / 2;      // slots that stay in a split node
  static constexpr uint32_t kMinSlots = (kSlots + 3) / 4, kMaxMerged = kSlots * 6 / 7;
};

// numbered returns the node of allocation number i.
__device__ __forceinline__ uint32_t numbered(const Tree& t, uint32_t i, uint32_t free, uint32_t top) {
  const uint32_t id = i < free ? t.freed[i] : top + (i - free);
  if (id >= t.nodes) __builtin_trap();  // the host has allocated enough
  return id;
}
__device__ __forceinline__ uint32_t numbered(const Tree& t, uint32_t i) {
  const Control* c = control_of(t);
  return numbered(t, i, c->free, c->top);
}

template <class S>
__device__ __forceinline__ Word128* node_of(const Tree& t, uint32_t id) {
  return reinterpret_cast<Word128*>(t.memory + kControlBytes + uint64_t(id) * Shape<S>::kNodeBytes);
}
template <class S>
__device__ __forceinline__ typename S::Word* slot_of(const Tree& t, uint32_t id, uint32_t slot) {
  return reinterpret_cast<typename S::Word*>(node_of<S>(t, id) + 1) + slot;
}
// state_word returns the address of the link and state of a node, the upper half of its header.
template <class S>
__device__ __forceinline__ uint64_t* state_word(const Tree& t, uint32_t id) { return &node_of<S>(t, id)->y; }

// ---- accesses ----------------------------------------------------------------

using weft::load_acquire;
using weft::store_release;

// These functions access 16 bytes atomically, with acquire or release order.
__device__ __forceinline__ Word128 load_acquire(const Word128* p) {
  Word128 v;
  asm volatile("{ .reg .b128 t; ld.acquire.gpu.global.b128 t, [%2]; mov.b128 {%0, %1}, t; }"
               : "=l"(v.x), "=l"(v.y) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_release(Word128* p, Word128 v) {
  asm volatile("{ .reg .b128 t; mov.b128 t, {%1, %2}; st.release.gpu.global.b128 [%0], t; }"
               :: "l"(p), "l"(v.x), "l"(v.y) : "memory");
}

// Way defines how lanes access nodes that change. Experiments define other ways
// (lab/internal/treeways).
template <class S>
struct Way {
  static constexpr bool kMerges = true;  // whether to merge nodes with few slots in use

  template <class T>
  __device__ __forceinline__ static T acquire(const T* p) { return load_acquire(p); }
  template <class T>
  __device__ __forceinline__ static void release(T* p, T v) { store_release(p, v); }
  // inner loads a piece of an inner node.
  __device__ __forceinline__ static Word128 inner(const Word128* p) { return acquire(p); }

  // latch tries to take a latch. It returns false if the latch is taken or the word has changed.
  __device__ __forceinline__ static bool latch(uint64_t* word) {
    const uint64_t was = load_relaxed(word), latch = uint64_t(kLatched) << 32;
    return !(was & latch) && cas_acquire(word, was, was | latch) == was;
  }
  // rest waits before the next attempt. Each of the first failures makes the wait longer.
  __device__ __forceinline__ static void rest(uint32_t tries) { pause(32u << (tries < 6 ? tries : 6)); }
};

// ---- lanes -------------------------------------------------------------------

// Lanes are the lanes of a tile, which work on a node together. With Whole, all tiles of the warp
// run in step. Otherwise the tiles may diverge.
template <class S, bool Whole>
struct Lanes {
  static constexpr uint32_t kLanes = Shape<S>::kLanes, kBits = (1u << kLanes) - 1;
  uint32_t rank = lane_index() % kLanes;
  uint32_t base = lane_index() - rank;

  __device__ __forceinline__ uint32_t mask() const { return Whole ? kAll : kBits << base; }
  __device__ __forceinline__ uint32_t vote(bool p) const { return ballot(mask(), p) >> base & kBits; }
  __device__ __forceinline__ uint32_t share(uint32_t v, uint32_t from) const { return shuffle_in<kLanes>(mask(), v, from); }
  __device__ __forceinline__ uint64_t share(uint64_t v, uint32_t from) const { return shuffle_in<kLanes>(mask(), v, from); }
  __device__ __forceinline__ Word128 share(Word128 v, uint32_t from) const { return {share(v.x, from), share(v.y, from)}; }
  __device__ __forceinline__ uint32_t across(uint32_t v, uint32_t x) const { return shuffle_xor(mask(), v, x); }
  __device__ __forceinline__ uint64_t across(uint64_t v, uint32_t x) const { return shuffle_xor(mask(), v, x); }
  // sync orders the earlier accesses of each lane with the later accesses of the others.
  __device__ __forceinline__ void sync() const { asm volatile("bar.warp.sync %0;" ::"r"(mask()) : "memory"); }
};

// Node is a node in registers. Piece p of a lane is vector p * kLanes + rank of the node.
template <class S, bool Whole>
struct Node {
  using Sh = Shape<S>;
  using Key = typename S::Key;
  using Word = typename S::Word;
  static constexpr uint32_t kLanes = Sh::kLanes, kPer = Sh::kPer, kPieces = Sh::kPieces, kSlots = Sh::kSlots;

  union Piece {
    Word128 whole;
    Word slots[kPer];
    __device__ Piece() {}
  };
  Piece piece[kPieces];

  // number returns the index in the node of slot j of piece p. For the header, it returns an index
  // after all slots.
  __device__ __forceinline__ static uint32_t number(uint32_t rank, uint32_t p, uint32_t j) {
    return p == 0 && rank == 0 ? kSlots + j : (p * kLanes + rank - 1) * kPer + j;
  }
  // each calls f(p, j, number, word) for all slots of this lane, including those without a pair.
  template <class F>
  __device__ __forceinline__ void each(uint32_t rank, F f) const {
#pragma unroll
    for (uint32_t p = 0; p < kPieces; p++)
#pragma unroll
      for (uint32_t j = 0; j < kPer; j++) f(p, j, number(rank, p, j), piece[p].slots[j]);
  }

  __device__ __forceinline__ void load_acquire(const Tree& t, uint32_t id, uint32_t rank) {
#pragma unroll
    for (uint32_t p = 0; p < kPieces; p++) piece[p].whole = Way<S>::acquire(node_of<S>(t, id) + p * kLanes + rank);
  }
  __device__ __forceinline__ void load_inner(const Tree& t, uint32_t id, uint32_t rank) {
#pragma unroll
    for (uint32_t p = 0; p < kPieces; p++) piece[p].whole = Way<S>::inner(node_of<S>(t, id) + p * kLanes + rank);
  }
  __device__ __forceinline__ void load_relaxed(const Tree& t, uint32_t id, uint32_t rank) {
#pragma unroll
    for (uint32_t p = 0; p < kPieces; p++) piece[p].whole = weft::load_relaxed(node_of<S>(t, id) + p * kLanes + rank);
  }

  // The header is piece 0 of lane 0.
  __device__ __forceinline__ uint32_t state(const Lanes<S, Whole>& l) const { return l.share(uint32_t(piece[0].whole.y >> 32), 0); }
  __device__ __forceinline__ uint32_t link(const Lanes<S, Whole>& l) const { return l.share(uint32_t(piece[0].whole.y), 0); }
  __device__ __forceinline__ Key high(const Lanes<S, Whole>& l) const { return l.share(Key(piece[0].whole.x), 0); }

  // beyond reports whether a key belongs to a node further right.
  __device__ __forceinline__ bool beyond(const Lanes<S, Whole>& l, Key key) const {
    const Word128& h = piece[0].whole;
    return l.vote(l.rank == 0 && uint32_t(h.y) != kNone && key >= Key(h.x)) != 0;
  }

  // above returns 1 if a slot orders after another slot, and 0 otherwise. It does not branch.
  __device__ __forceinline__ static uint32_t above(Key key, uint32_t id, Key than, uint32_t than_id) {
    return uint32_t(key > than) | (uint32_t(key == than) & uint32_t(id > than_id));
  }
  // better makes w the best slot if w is a slot, its key is not above `key`, and it orders after
  // the previous best.
  __device__ __forceinline__ static void better(Key& best, uint32_t& id, bool is_slot, Key key, Word w) {
    const uint32_t takes = uint32_t(is_slot) & uint32_t(S::key(w) <= key) & above(S::key(w), uint32_t(S::value(w)), best, id);
    best = takes ? S::key(w) : best;
    id = takes ? uint32_t(S::value(w)) : id;
  }
  // most finds the best slot of all lanes, and stores it in all lanes.
  __device__ __forceinline__ static void most(const Lanes<S, Whole>& l, Key& best, uint32_t& id) {
#pragma unroll
    for (uint32_t x = kLanes / 2; x != 0; x /= 2) {
      const Key other = l.across(best, x);
      const uint32_t other_id = l.across(id, x);
      const uint32_t takes = above(other, other_id, best, id);
      best = takes ? other : best;
      id = takes ? other_id : id;
    }
  }
  // child returns the child for a key in an inner node: the child with the largest key that is not
  // above `key`. It stores the child's key in low. If a half-written root shows two children with
  // one key, all lanes choose the same child.
  __device__ __forceinline__ uint32_t child(const Lanes<S, Whole>& l, Key key, Key& low) const {
    Key best = 0;
    uint32_t id = 0;  // the root is not a child
    each(l.rank, [&](uint32_t p, uint32_t, uint32_t, Word w) { better(best, id, p != 0 || l.rank != 0, key, w); });
    most(l, best, id);
    low = best;
    return id;
  }

  // below returns how many of the first count keys, which are in order, are less than `key`.
  __device__ __forceinline__ uint32_t below(const Lanes<S, Whole>& l, Key key, uint32_t count) const {
    uint32_t n = 0;
#pragma unroll
    for (uint32_t p = 0; p < kPieces; p++)
#pragma unroll
      for (uint32_t j = 0; j < kPer; j++)
        n += popcount(l.vote(number(l.rank, p, j) < count && S::key(piece[p].slots[j]) < key));
    return n;
  }

  // word returns slot number i to all lanes.
  __device__ __forceinline__ Word word(const Lanes<S, Whole>& l, uint32_t i) const {
    const uint32_t vector = i / kPer + 1;
    Word w = piece[0].slots[0];
    each(l.rank, [&](uint32_t p, uint32_t j, uint32_t, Word x) {
      if (p == vector / kLanes && j == i % kPer) w = x;
    });
    return l.share(w, vector % kLanes);
  }

  // has reports whether one of the first count slots has a key, and stores its number in `at`.
  __device__ __forceinline__ bool has(const Lanes<S, Whole>& l, Key key, uint32_t count, uint32_t& at) const {
    bool mine = false;
    each(l.rank, [&](uint32_t, uint32_t, uint32_t number, Word w) {
      if (number < count && S::key(w) == key) mine = true, at = number;
    });
    const uint32_t who = l.vote(mine);
    if (who == 0) return false;
    at = l.share(at, lowest(who));
    return true;
  }

  // ranks computes the ranks of the first count slots in key order. Slots without a pair get a rank
  // after all others.
  __device__ __forceinline__ void ranks(const Lanes<S, Whole>& l, uint32_t count, bool leaf, uint32_t (&r)[kPieces][kPer]) const {
    each(l.rank, [&](uint32_t p, uint32_t j, uint32_t number, Word) { r[p][j] = number >= count ? kSlots : leaf ? number : 0; });
    if (leaf) return;
#pragma unroll
    for (uint32_t i = 0; i < kSlots; i++) {
      const Key other = S::key(word(l, i));
      each(l.rank, [&](uint32_t p, uint32_t j, uint32_t number, Word w) {
        if (number < count && i < count && other < S::key(w)) r[p][j]++;
      });
    }
  }
  // key_at returns the key of the slot with a rank. That slot must exist.
  __device__ __forceinline__ Key key_at(const Lanes<S, Whole>& l, const uint32_t (&r)[kPieces][kPer], uint32_t rank) const {
    bool mine = false;
    Key key = 0;
    each(l.rank, [&](uint32_t p, uint32_t j, uint32_t, Word w) {
      if (r[p][j] == rank) mine = true, key = S::key(w);
    });
    return l.share(key, lowest(l.vote(mine)));
  }
  // move stores the slots of ranks [lo,hi) in a node, in order. It fills the slots after these with
  // the first one.
  __device__ __forceinline__ void move(const Tree& t, const Lanes<S, Whole>& l, const uint32_t (&r)[kPieces][kPer], uint32_t lo, uint32_t hi,
                                       uint32_t to) const {
    each(l.rank, [&](uint32_t p, uint32_t j, uint32_t, Word w) {
      const uint32_t rank = r[p][j];
      if (rank < lo || rank >= hi) return;
      Way<S>::release(slot_of<S>(t, to, rank - lo), w);
      if (rank != lo) return;
#pragma unroll 1
      for (uint32_t i = hi - lo; i < kSlots; i++) Way<S>::release(slot_of<S>(t, to, i), w);
    });
  }

  // set changes slot i in registers.
  __device__ __forceinline__ void set(const Lanes<S, Whole>& l, uint32_t i, Word to) {
#pragma unroll
    for (uint32_t p = 0; p < kPieces; p++)
#pragma unroll
      for (uint32_t j = 0; j < kPer; j++)
        if (number(l.rank, p, j) == i) piece[p].slots[j] = to;
  }
  // open moves the slots from i on up by one, and stores a word in slot i, in registers.
  __device__ __forceinline__ void open(const Lanes<S, Whole>& l, uint32_t i, Word to) {
    Word before[kPieces];  // the last slot of the previous vector
#pragma unroll
    for (uint32_t p = 0; p < kPieces; p++) before[p] = l.share(piece[p].slots[kPer - 1], (l.rank + kLanes - 1) % kLanes);
#pragma unroll
    for (int p = kPieces - 1; p >= 0; p--) {
      const Word in = l.rank != 0 || p == 0 ? before[p] : before[p - (p != 0)];
#pragma unroll
      for (int j = kPer - 1; j >= 0; j--) {
        const uint32_t n = number(l.rank, p, j);
        if (n >= kSlots || n < i) continue;
        piece[p].slots[j] = n == i ? to : j != 0 ? piece[p].slots[j - (j != 0)] : in;
      }
    }
  }
  // close removes slot i in registers: the slots after it move down by one.
  __device__ __forceinline__ void close(const Lanes<S, Whole>& l, uint32_t i) {
    Word behind[kPieces];  // the first slot of the next vector
#pragma unroll
    for (uint32_t p = 0; p < kPieces; p++) behind[p] = l.share(piece[p].slots[0], (l.rank + 1) % kLanes);
#pragma unroll
    for (uint32_t p = 0; p < kPieces; p++) {
      const Word in = l.rank != kLanes - 1 ? behind[p] : behind[p + 1 < kPieces ? p + 1 : p];
#pragma unroll
      for (uint32_t j = 0; j < kPer; j++) {
        const uint32_t n = number(l.rank, p, j);
        if (n >= kSlots || n < i) continue;
        piece[p].slots[j] = j + 1 < kPer ? piece[p].slots[j + 1 < kPer ? j + 1 : j] : in;
      }
    }
  }
};

// ---- reading -----------------------------------------------------------------

// read reads a node. With `versioned`, it returns false if the node changed meanwhile, and true if
// the state is consistent.
template <class S, bool Whole>
__device__ __forceinline__ bool read(const Tree& t, const Lanes<S, Whole>& l, uint32_t id, bool versioned, Node<S, Whole>& n,
                                     uint32_t& state) {
  l.sync();  // one lane has acquired the path to this node, and all lanes follow it
  uint64_t* word = state_word<S>(t, id);
  uint64_t first = 0, again = 0;
  if (versioned) {
    first = Way<S>::acquire(word);
    n.load_acquire(t, id, l.rank);
    again = load_relaxed(word);
  } else {
    n.load_inner(t, id, l.rank);
  }
  state = n.state(l);
  // The state must be the same before and after each lane's reads, and the same in all lanes.
  const bool one = first == again && uint32_t(first >> 32) == state && !(state & kChanging);
  return l.vote(versioned && !one) == 0;
}

// Search is a tile's path down to the leaf of a key. With Whole, all tiles of a warp take their
// steps together.
template <class S, bool Whole>
struct Search {
  uint32_t at = kRoot;
  bool leaf = false;            // `at` is probably a leaf
  typename S::Key low = 0;      // the smallest key that node `at` may have

  // descend takes a step at an inner node. It only finds the next node. The right neighbor counts
  // as one more child, since its key is larger than all keys in the node. If the path moves to the
  // right neighbor, `leaf` may be set too early. step detects that.
  __device__ __forceinline__ void descend(const Tree& t, const Lanes<S, Whole>& l, typename S::Key key) {
    using N = Node<S, Whole>;
    using Key = typename S::Key;
    N n;
    l.sync();
    n.load_inner(t, at, l.rank);
    const uint32_t level = level_of(n.state(l)), link = uint32_t(n.piece[0].whole.y);
    Key best = Key(n.piece[0].whole.x);
    uint32_t id = l.rank == 0 && link != kNone && key >= best ? link : 0;
    if (id == 0) best = 0;
    n.each(l.rank, [&](uint32_t p, uint32_t, uint32_t, typename S::Word w) { N::better(best, id, p != 0 || l.rank != 0, key, w); });
    N::most(l, best, id);
    leaf = level <= 1;
    if (level != 0) at = id;
  }

  // step reads a node into n. It reports whether the node is the leaf of the key, read in a
  // consistent state.
  __device__ __forceinline__ bool step(const Tree& t, const Lanes<S, Whole>& l, typename S::Key key, Node<S, Whole>& n,
                                       uint32_t& state) {
    const bool whole = read(t, l, at, leaf, n, state);
    const bool right = n.beyond(l, key);
    const uint32_t link = n.link(l), level = level_of(state);
    typename S::Key least = n.high(l);
    uint32_t next = link;
    if (ballot(l.mask(), level != 0)) {
      typename S::Key first;
      const uint32_t child = n.child(l, key, first);
      if (!right) next = child, least = first;
    }
    if (!whole) return false;
    if (level == 0) {
      if (!leaf) {
        leaf = true;
        return false;
      }
      if (state & kDead) {
        // The pairs have moved to the left neighbor. The low key of that node is unknown, so `low`
        // may be too large until the search restarts.
        at = link;
        return false;
      }
      if (!right) return true;
    } else {
      leaf = !right && level == 1;
    }
    at = next;
    low = least;
    return false;
  }
};

}  // namespace weft::btree
