// The leaves of a tree in key order. Ranks, counts and positions follow from this order. No change
// runs during these reads, so all accesses are weak.
#pragma once

#include "weft/btree_node.cuh"
#include "weft/inorder.cuh"

namespace weft::btree {

using namespace inorder;

// Order lists the leaves that have pairs.
struct Order {
  void* firsts;       // first key of each leaf, ascending
  uint32_t* ids;
  uint64_t* before;   // number of pairs before each leaf, and the total
  uint32_t* count;    // number of leaves
};

template <class S>
__device__ __forceinline__ typename S::Key* firsts_of(const Order& o) { return static_cast<typename S::Key*>(o.firsts); }

template <class S>
__device__ __forceinline__ typename S::Word load_slot(const Tree& t, uint32_t id, uint32_t slot) {
  if constexpr (sizeof(typename S::Word) == 8)
    return *slot_of<S>(t, id, slot);
  else
    return load_weak(slot_of<S>(t, id, slot));
}

// given returns the number of nodes that have been allocated, including those that are free again.
__device__ __forceinline__ uint32_t given(const Tree& t) {
  const Control* c = control_of(t);
  return c->top + (c->taken > c->free ? c->taken - c->free : 0);
}

struct CollectParams {
  Tree tree;
  void* firsts;  // all bits are 1 before the launch
  uint32_t* ids;
  uint32_t* count;  // zero before the launch
};

// collect_all calls of(id, state) for each node, and lists the results other than kNone.
template <class S, class Of>
__device__ __forceinline__ void collect_all(const CollectParams& p, Of of) {
  const uint32_t n = given(p.tree), all = (n + kWarp - 1) / kWarp * kWarp;
  for (uint64_t id = thread_index(); id < all; id += threads_in_grid()) {
    const uint32_t node = id < n ? of(uint32_t(id), uint32_t(*state_word<S>(p.tree, id) >> 32)) : kNone;
    const uint32_t votes = ballot(kAll, node != kNone), lane = lane_index();
    uint32_t at = 0;
    if (lane == 0 && votes != 0) at = add_relaxed(p.count, popcount(votes));
    at = shuffle(kAll, at, 0) + popcount(votes & ((1u << lane) - 1));
    if (node == kNone) continue;
    static_cast<typename S::Key*>(p.firsts)[at] = S::key(load_slot<S>(p.tree, node, 0));
    p.ids[at] = node;
  }
}

// Place is the position of a pair: its leaf, its slot, and the number of pairs before it. A Place
// after the last pair refers to no pair.
struct Place {
  uint32_t leaf, slot;  // leaf is an index in the order
  uint64_t rank;
  bool same;  // the pair has the key of the search
};

// place returns the position of the first pair with a key of at least `key`.
template <class S>
__device__ __forceinline__ Place place(const Tree& t, const Order& o, typename S::Key key) {
  const uint32_t behind = first<uint32_t>(0, *o.count, [&](uint32_t l) { return firsts_of<S>(o)[l] > key; });
  if (behind == 0) return {0, 0, 0, false};
  const uint32_t leaf = behind - 1, id = o.ids[leaf];
  const uint32_t count = uint32_t(o.before[leaf + 1] - o.before[leaf]);
  const uint32_t from = first<uint32_t>(0, count, [&](uint32_t slot) { return S::key(load_slot<S>(t, id, slot)) >= key; });
  const uint64_t rank = o.before[leaf] + from;
  if (from == count) return {leaf + 1, 0, rank, false};
  return {leaf, from, rank, S::key(load_slot<S>(t, id, from)) == key};
}

// leaf_at returns the index of the leaf that has pair number `rank`. lo is a lower bound for that
// index.
__device__ __forceinline__ uint32_t leaf_at(const Order& o, uint32_t lo, uint64_t rank) {
  uint32_t hi = *o.count;
  while (lo + 1 < hi) {
    const uint32_t mid = lo + (hi - lo) / 2;
    if (o.before[mid] <= rank)
      lo = mid;
    else
      hi = mid;
  }
  return lo;
}

// pair_at returns pair number `rank`. In `leaf`, the caller passes the index of a leaf near the
// pair. pair_at replaces it with the index of the pair's own leaf.
template <class S>
__device__ __forceinline__ typename S::Word pair_at(const Tree& t, const Order& o, uint32_t& leaf, uint64_t rank) {
  while (o.before[leaf + 1] <= rank) leaf++;
  while (o.before[leaf] > rank) leaf--;
  return load_slot<S>(t, o.ids[leaf], uint32_t(rank - o.before[leaf]));
}

// Span is a range [from,to) of pairs, and the leaf of the first pair.
struct Span {
  uint64_t from, to;
  uint32_t leaf;
};

// span returns the pairs from key lo to key hi that b selects.
template <class S>
__device__ __forceinline__ Span span(const Tree& t, const Order& o, typename S::Key lo, typename S::Key hi, Bounds b) {
  const Place from = place<S>(t, o, lo);
  Span s{from.rank, from.rank, from.leaf};
  if (lo > hi) return s;
  const Place to = place<S>(t, o, hi);
  s.to = to.rank + to.same;
  bound(s.from, s.to, b);
  return s;
}

}  // namespace weft::btree
