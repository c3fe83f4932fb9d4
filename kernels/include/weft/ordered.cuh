// An ordered.Map, or a snapshot of one, in users' kernels. Package ordered documents how to get a
// Ref in Go; docs/refs.md is a guide.
//
//	__global__ void next(ordered::Ref<int64_t, double> prices, …) {
//	  if (prices.predecessor(time, &at, &price)) …
//
// A Ref shows the map at one moment, and this state never changes. So nothing here is atomic. Any
// two calls are consistent with each other, even if the map changes at the same time.
//
// A call without a suffix serves one lane and is valid anywhere: lanes may diverge, loop, and have
// returned. A call with _warp serves all 32 lanes of a warp together, and each lane brings one key
// or none. A call with _tile serves kTile neighboring lanes with the same arguments, which share
// the work.
#pragma once

#include "ordered_find.cuh"
#include "ref.cuh"

namespace weft::ordered {

// Ref is passed to kernels by value. K and V match the map's Go types.
template <class K, class V>
struct Ref {
  using Key = typename As<K>::Bits;
  using Val = typename As<V>::Bits;
  static constexpr uint32_t kTile = Tile<Key>::kLanes;

  Index index;
  Terms terms;

  // size returns the number of pairs.
  __device__ __forceinline__ uint64_t size() const {
    check();
    return index.content->live;
  }

  // find reports whether a key is present. It stores the value in *value, if value is not null.
  __device__ __forceinline__ bool find(K key, V* value = nullptr) const {
    const At at = seek(in(key));
    if (at.same) give(at.place, nullptr, value);
    return at.same;
  }
  __device__ __forceinline__ bool find_warp(bool there, K key, V* value = nullptr) const {
    terms.check_warp(kShape);
    const Tile<Key> tile;
    const Hit<Key, Val> found = hit<Key, Val>(index, tile, leaves(), there ? in(key) : Key(0), Levels<Key>(index), 0);
    if (!there || !found.leaf) return false;
    if (value) *value = As<V>::from(found.leaf->vals[found.slot]);
    return true;
  }

  // successor reports whether a pair exists after a key. It stores the first such pair in *next and
  // *value, except where these are null.
  __device__ __forceinline__ bool successor(K key, K* next, V* value = nullptr) const {
    At at = seek(in(key));
    at.place.at += at.same;
    if (at.place.at == at.size) at.place = {at.place.leaf + 1, 0};
    if (at.place.leaf >= leaves()) return false;
    give(at.place, next, value);
    return true;
  }
  // predecessor reports whether a pair exists before a key. It stores the last such pair in *before
  // and *value, except where these are null.
  __device__ __forceinline__ bool predecessor(K key, K* before, V* value = nullptr) const {
    Place at = seek(in(key)).place;
    if (at.at == 0) {
      if (at.leaf == 0) return false;
      at = {at.leaf - 1, index.sizes[at.leaf - 1]};
    }
    give({at.leaf, at.at - 1}, before, value);
    return true;
  }

  // rank returns the number of pairs with smaller keys.
  __device__ __forceinline__ uint64_t rank(K key) const { return rank_of(seek(in(key))); }
  // select reports whether a pair with the given rank exists. It stores the pair in *key and
  // *value, except where these are null.
  __device__ __forceinline__ bool select(uint64_t rank, K* key, V* value = nullptr) const {
    if (rank >= size()) return false;
    give(place_of(index, *index.content, rank), key, value);
    return true;
  }
  // count returns the number of pairs with keys in [lo,hi].
  __device__ __forceinline__ uint64_t count(K lo, K hi) const {
    if (in(lo) > in(hi)) return 0;
    const At to = seek(in(hi));
    return rank_of(to) + to.same - rank(lo);
  }

  // range calls f(i, key, value) for pair i of the range [lo,hi] in key order, for at most `most`
  // pairs. It returns the number of these pairs.
  template <class F>
  __device__ __forceinline__ uint32_t range(K lo, K hi, uint32_t most, F f) const {
    return walk(lo, hi, most, 0, 1, f);
  }
  // range_tile calls f for each pair in one lane of the tile. It visits the pairs of a leaf in no
  // order.
  template <class F>
  __device__ __forceinline__ uint32_t range_tile(K lo, K hi, uint32_t most, F f) const {
    return walk(lo, hi, most, lane_index() % kTile, kTile, f);
  }

 private:
  static constexpr uint32_t kShape = shape(As<K>::kBytes, As<V>::kBytes, false);

  __device__ __forceinline__ void check() const { terms.check(kShape); }
  __device__ __forceinline__ uint32_t leaves() const { return uint32_t(index.content->leaves); }
  __device__ __forceinline__ Key in(K key) const { return As<K>::bits(key) ^ Key(index.flip); }
  __device__ __forceinline__ const Leaf<Key, Val>* leaf_of(uint32_t leaf) const { return leaf_at<Key, Val>(index, index.ids[leaf]); }

  // At is the place of a key, or the place at which to insert it. That place may be the end of a
  // leaf.
  struct At {
    Place place;
    uint32_t size;  // number of pairs of that leaf
    bool same;
  };
  __device__ __forceinline__ At seek(Key key) const {
    check();
    const uint32_t n = leaves();
    if (n == 0) return {{0, 0}, 0, false};
    const uint32_t leaf = ordered::leaf_of(index, n - 1, key), size = index.sizes[leaf];
    const Leaf<Key, Val>* of = leaf_of(leaf);
    const uint32_t at = lower(of, size, key);
    return {{leaf, at}, size, at < size && of->keys[at] == key};
  }
  __device__ __forceinline__ uint64_t rank_of(const At& at) const {
    return at.size == 0 ? 0 : before(index, at.place.leaf) + at.place.at;
  }
  __device__ __forceinline__ void give(Place at, K* key, V* value) const {
    const Leaf<Key, Val>* leaf = leaf_of(at.leaf);
    if (key) *key = As<K>::from(leaf->keys[at.at] ^ Key(index.flip));
    if (value) *value = As<V>::from(leaf->vals[at.at]);
  }

  // walk iterates over a range, leaf by leaf. This lane visits every `each`-th pair of a leaf, from
  // `first` on.
  template <class F>
  __device__ __forceinline__ uint32_t walk(K lo, K hi, uint32_t most, uint32_t first, uint32_t each, F f) const {
    const Key last = in(hi);
    if (in(lo) > last) return 0;
    const At at = seek(in(lo));
    const uint32_t end = leaves();
    uint32_t from = at.place.at, n = 0;
    for (uint32_t leaf = at.place.leaf; leaf < end && n < most; leaf++, from = 0) {
      const Leaf<Key, Val>* of = leaf_of(leaf);
      const uint32_t size = index.sizes[leaf];
      const bool all = of->keys[kPairs - 1] <= last;
      uint32_t to = size;
      if (!all) to = lower(of, size, last), to += of->keys[to] == last;
      if (to - from > most - n) to = from + (most - n);
      for (uint32_t i = from + first; i < to; i += each)
        f(n + i - from, As<K>::from(of->keys[i] ^ Key(index.flip)), As<V>::from(of->vals[i]));
      n += to - from;
      if (!all) break;
    }
    return n;
  }
};

}  // namespace weft::ordered
