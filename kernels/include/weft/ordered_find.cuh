// Searches in an ordered map, one key for each lane of a warp. Nothing that they read changes, so
// all accesses are weak.
#pragma once

#include "ordered_index.cuh"

namespace weft::ordered {

// Hit is the place of a pair: a leaf and a slot in it. leaf is null if the key is absent.
template <class K, class V>
struct Hit {
  const Leaf<K, V>* leaf = nullptr;
  uint32_t slot = 0;
};

// hit finds the pair of a key for each lane. The search begins at node `from` of the highest level
// of `below`. A tile descends with the keys of its lanes, kTogether keys at a time. All lanes of a
// warp must call it.
template <class K, class V>
__device__ __forceinline__ Hit<K, V> hit(const Index& x, const Tile<K>& tile, uint32_t leaves, K mine, Levels<K> below, uint32_t from) {
  Hit<K, V> found;
  const CachePolicy passing = evict_first();  // so that leaves do not displace the index
  for (uint32_t r = 0; leaves != 0 && r < Tile<K>::kLanes; r += kTogether) {
    K key[kTogether];
    uint32_t at[kTogether];
#pragma unroll
    for (uint32_t q = 0; q < kTogether; q++) key[q] = shuffle(kAll, mine, tile.base + r + q), at[q] = shuffle(kAll, from, tile.base + r + q);
    down(x, below, tile, leaves - 1, key, at);
    const Leaf<K, V>* leaf[kTogether];
    Word128 word[kTogether][2];
#pragma unroll
    for (uint32_t q = 0; q < kTogether; q++) {
      leaf[q] = leaf_at<K, V>(x, x.ids[at[q]]);
      word[q][0] = load_weak(static_cast<const Word128*>(tile.part(leaf[q]->keys)), passing);
      word[q][1] = load_weak(static_cast<const Word128*>(tile.part(leaf[q]->keys + kFanout)), passing);
    }
#pragma unroll
    for (uint32_t q = 0; q < kTogether; q++) {
      const uint32_t a = Keys<K>(word[q][0]).same(key[q]), b = Keys<K>(word[q][1]).same(key[q]);
      const uint32_t in_a = tile.vote(a != Keys<K>::kNumber), in_b = tile.vote(b != Keys<K>::kNumber), in = in_a ? in_a : in_b;
      const uint32_t from = in ? lowest(in) : 0;
      const uint32_t which = shuffle(kAll, in_a ? a : b, tile.base + from);
      if (tile.rank == r + q && in) found = {leaf[q], (in_a ? 0 : kFanout) + from * Keys<K>::kNumber + which};
    }
  }
  return found;
}

// Spot is the place of a key, or the place at which to insert it.
struct Spot {
  Place place;  // place of the first pair with a key that is not smaller
  uint32_t size;  // number of pairs of that leaf
  bool same;    // that pair has the key
};

// spot finds the place of a key for each lane, by a search as in hit. The map must have leaves.
template <class K, class V>
__device__ __forceinline__ Spot spot(const Index& x, const Tile<K>& tile, uint32_t leaves, K mine, Levels<K> below, uint32_t from) {
  Spot s{};
  const CachePolicy passing = evict_first();  // so that leaves do not displace the index
  for (uint32_t r = 0; r < Tile<K>::kLanes; r += kTogether) {
    K key[kTogether];
    uint32_t at[kTogether];
#pragma unroll
    for (uint32_t q = 0; q < kTogether; q++) key[q] = shuffle(kAll, mine, tile.base + r + q), at[q] = shuffle(kAll, from, tile.base + r + q);
    down(x, below, tile, leaves - 1, key, at);
#pragma unroll
    for (uint32_t q = 0; q < kTogether; q++)
      if (tile.rank == r + q) s.place.leaf = at[q];
    Word128 word[kTogether][2];
#pragma unroll
    for (uint32_t q = 0; q < kTogether; q++) {
      const Leaf<K, V>* leaf = leaf_at<K, V>(x, x.ids[at[q]]);
      word[q][0] = load_weak(static_cast<const Word128*>(tile.part(leaf->keys)), passing);
      word[q][1] = load_weak(static_cast<const Word128*>(tile.part(leaf->keys + kFanout)), passing);
    }
    // Read the sizes after all leaves, so that more loads of leaves are in flight.
    if (tile.rank - r < kTogether) s.size = x.sizes[s.place.leaf];
#pragma unroll
    for (uint32_t q = 0; q < kTogether; q++) {
      const Keys<K> a(word[q][0]), b(word[q][1]);
      const uint32_t smaller = tile.sum(a.smaller(key[q])) + tile.sum(b.smaller(key[q]));
      const bool same = tile.vote(a.same(key[q]) != Keys<K>::kNumber || b.same(key[q]) != Keys<K>::kNumber) != 0;
      if (tile.rank == r + q) s.place.at = smaller, s.same = same;
    }
  }
  if (s.place.at > s.size) s.place.at = s.size;
  return s;
}

}  // namespace weft::ordered
