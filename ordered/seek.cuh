// Lookups. The memory that they read does not change, so all accesses are weak.
#pragma once

#include "top.cuh"

namespace weft::ordered {

constexpr uint32_t kBlock = 256;             // threads per block, as in internal/gpu
constexpr uint32_t kWarps = kBlock / kWarp;  // warps per block

struct SeekParams {
  Index x;
  const void* lo;  // keys, or the lower bounds of ranges
  const void* hi;  // upper bounds of ranges
  void* keys;      // may be null, like the pointers below
  void* vals;
  uint8_t* ok;
  uint64_t* ranks;          // output of kRank, input of kSelect
  uint32_t* counts;         // number of pairs in each range
  const uint64_t* offsets;  // row of each range's first pair; all pairs are written
  uint64_t* hits;           // the kernel adds the number of rows with a result
  uint64_t n;
  uint64_t first, rows;  // the columns hold rows [first,rows)
  uint32_t limit;        // maximum number of pairs in a range; 0: all
  uint32_t backward;
  uint32_t kind;
  uint32_t unused;
};

// get looks up one key per lane. The lanes read values after the search, so a miss reads no value.
template <class K, class V>
__device__ __forceinline__ void get(const SeekParams& p) {
  __shared__ Top<K> top;
  const uint32_t leaves = p.x.content->leaves;
  const Levels<K> below = top.read(p.x, leaves);
  const Tile<K> tile;
  uint32_t hits = 0;
  for (uint64_t first = thread_index() - tile.lane; first < p.n; first += threads_in_grid()) {
    const uint64_t i = first + tile.lane;
    const K mine = i < p.n ? K(load_once(static_cast<const K*>(p.lo) + i) ^ K(p.x.flip)) : K(0);
    const Hit<K, V> found = hit<K, V>(p.x, tile, leaves, mine, below, top.node(leaves, below, mine));
    if (i >= p.n) continue;
    if (p.vals) store_once(static_cast<V*>(p.vals) + i, found.leaf ? load_weak(found.leaf->vals + found.slot, evict_first()) : V(0));
    if (p.ok) store_once(p.ok + i, uint8_t(found.leaf != nullptr));
    hits += found.leaf != nullptr;
  }
  if (p.hits) add_warp_sum(p.hits, hits);
}

// answer writes a pair as answer i, or zeros if the pair is absent.
template <class K, class V>
__device__ __forceinline__ bool answer(const SeekParams& p, uint64_t i, Place at, bool there) {
  const Leaf<K, V>* leaf = there ? leaf_at<K, V>(p.x, p.x.ids[at.leaf]) : nullptr;
  return inorder::answer<K, V>(p, i, there, [&] { return leaf->keys[at.at] ^ K(p.x.flip); }, [&] { return leaf->vals[at.at]; });
}

// point answers query i. s is the spot of the query's key.
template <class K, class V>
__device__ __forceinline__ bool point(const SeekParams& p, uint64_t i, const Content& c, Spot s) {
  Place at = s.place;
  bool there = c.leaves != 0;
  switch (p.kind) {
    case kRank:
      p.ranks[i] = there ? before(p.x, at.leaf) + at.at : 0;
      return false;
    case kSelect:
      if ((there = p.ranks[i] < c.live)) at = place_of(p.x, c, p.ranks[i]);
      break;
    case kSuccessor:
      at.at += s.same;
      if (there && at.at == s.size) at = {at.leaf + 1, 0}, there = at.leaf < c.leaves;
      break;
    case kPredecessor:
      if (there && at.at-- == 0) {
        there = at.leaf-- != 0;
        if (there) at.at = p.x.sizes[at.leaf] - 1;
      }
      break;
    default:
      there = there && s.same;
  }
  return answer<K, V>(p, i, at, there);
}

// seek answers queries for single keys.
template <class K, class V>
__device__ __forceinline__ void seek(const SeekParams& p) {
  __shared__ Top<K> top;
  const Content c = *p.x.content;
  const Levels<K> below = top.read(p.x, c.leaves);
  const Tile<K> tile;
  uint32_t hits = 0;
  for (uint64_t first = thread_index() - tile.lane; first < p.n; first += threads_in_grid()) {
    const uint64_t i = first + tile.lane;
    Spot s{};
    if (p.kind != kSelect && c.leaves != 0) {
      const K key = i < p.n ? key_in<K>(p.lo, i, p.x.flip) : K(0);
      s = spot<K, V>(p.x, tile, c.leaves, key, below, top.node(c.leaves, below, key));
    }
    if (i < p.n) hits += point<K, V>(p, i, c, s);
  }
  if (p.hits) add_warp_sum(p.hits, hits);
}

struct CopyParams {
  Index x;
  void* keys;
  void* vals;
  uint64_t from, n;
  uint32_t backward;
  uint32_t unused;
};

// copy_pairs copies n pairs. Forward, it begins with the pair of rank `from`. Backward, it begins
// with the pair before that rank, and ranks descend.
template <class K, class V>
__device__ __forceinline__ void copy_pairs(const CopyParams& p) {
  const Content c = *p.x.content;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const Place at = place_of(p.x, c, p.backward ? p.from - 1 - i : p.from + i);
    const Leaf<K, V>* leaf = leaf_at<K, V>(p.x, p.x.ids[at.leaf]);
    static_cast<K*>(p.keys)[i] = leaf->keys[at.at] ^ K(p.x.flip);
    static_cast<V*>(p.vals)[i] = leaf->vals[at.at];
  }
}

struct BeforeParams {
  Index x;
  uint64_t* to;
  uint32_t leaf;
  uint32_t unused;
};

// count_before writes the number of pairs before a leaf.
__device__ __forceinline__ void count_before(const BeforeParams& p) {
  if (thread_index() == 0) *p.to = before(p.x, p.leaf);
}

}  // namespace weft::ordered
