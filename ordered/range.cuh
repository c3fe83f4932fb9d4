// Queries for ranges. The memory that they read does not change, so all accesses are weak.
#pragma once

#include "seek.cuh"
#include "weft/sums.cuh"

namespace weft::ordered {

// count counts the pairs in ranges, one range per lane.
template <class K, class V>
__device__ __forceinline__ void count(const SeekParams& p) {
  __shared__ Top<K> top;
  const uint32_t leaves = p.x.content->leaves;
  const Levels<K> below = top.read(p.x, leaves);
  const Tile<K> tile;
  uint32_t hits = 0;
  for (uint64_t first = thread_index() - tile.lane; first < p.n; first += threads_in_grid()) {
    const uint64_t i = first + tile.lane;
    const K flip = p.x.flip, lo = i < p.n ? key_in(p.lo, i, flip) : 1, hi = i < p.n ? key_in(p.hi, i, flip) : 0;
    uint64_t n = 0;
    if (leaves != 0) {
      const Spot from = spot<K, V>(p.x, tile, leaves, lo, below, top.node(leaves, below, lo));
      const Spot to = spot<K, V>(p.x, tile, leaves, hi, below, top.node(leaves, below, hi));
      if (lo <= hi) n = before(p.x, to.place.leaf) + to.place.at + to.same - before(p.x, from.place.leaf) - from.place.at;
    }
    if (p.limit != 0 && n > p.limit) n = p.limit;
    if (i < p.n) p.counts[i] = n;
    hits += n != 0;
  }
  if (p.hits) add_warp_sum(p.hits, hits);
}

constexpr uint32_t kInFlight = 4;    // number of leaves of a range to look up at a time
constexpr uint32_t kAbreast = 4;  // number of pairs that a lane copies at a time

// Walk is the part of a range that is not copied yet.
template <class K>
struct Walk {
  Place at;    // place of the next pair; backward: place after it
  K end;       // largest key; backward: smallest key
  uint64_t n;  // maximum number of pairs
  uint64_t row;
};

// Part consists of the pairs of a stretch that lie in one leaf. Pair i of the stretch is in slot
// first + i, or backward in slot first - i.
template <class K, class V>
struct Part {
  const Leaf<K, V>* leaf;
  uint32_t first;
  uint32_t end;  // index in the stretch at which the part ends
};

// Stretch consists of the next pairs of a range. It has at most as many pairs as a warp has lanes.
template <class K, class V>
struct Stretch {
  Part<K, V> parts[kInFlight];
  uint64_t row;  // row of the first pair
  K end;
  uint32_t n;
};

// ahead sets s to the next stretch of a range and returns its size.
template <class K, class V>
__device__ __forceinline__ uint32_t ahead(const SeekParams& p, uint32_t leaves, const Walk<K>& w, Stretch<K, V>& s) {
  uint32_t sizes[kInFlight], ids[kInFlight], end = 0;
#pragma unroll
  for (uint32_t m = 0; m < kInFlight; m++) {
    const uint32_t leaf = p.backward ? w.at.leaf - m : w.at.leaf + m;
    const bool there = leaf < leaves;
    sizes[m] = p.x.sizes[there ? leaf : 0], ids[m] = p.x.ids[there ? leaf : 0];
    if (!there) sizes[m] = 0;
  }
#pragma unroll
  for (uint32_t m = 0; m < kInFlight; m++) {
    uint32_t n = sizes[m];
    if (m == 0) n = p.backward ? w.at.at : n - w.at.at;
    const uint32_t first = p.backward ? n + end - 1 : sizes[m] - n - end;
    s.parts[m] = {leaf_at<K, V>(p.x, ids[m]), first, end += n};
  }
  s.row = w.row, s.end = w.end;
  return s.n = w.n < end ? uint32_t(w.n < kWarp ? w.n : kWarp) : end < kWarp ? end : kWarp;
}

// pass advances a walk by n pairs of a stretch.
template <class K, class V>
__device__ __forceinline__ void pass(const SeekParams& p, Walk<K>& w, const Stretch<K, V>& s, uint32_t n) {
  w.n = n < s.n || n == 0 ? 0 : w.n - n, w.row += n;
  uint32_t m = 0;
#pragma unroll
  for (uint32_t i = 0; i + 1 < kInFlight; i++) m += s.parts[i].end < n;
  const uint32_t first = s.parts[m].first;
  if (p.backward) w.at = {w.at.leaf - m, first - n + 1};
  else w.at = {w.at.leaf + m, first + n};
}

// copy copies the stretches of a warp. For each stretch, it uses as many lanes as the largest
// stretch has pairs. This lane's stretch has at most n pairs. copy returns its actual number of
// pairs.
template <class K, class V>
__device__ __forceinline__ uint32_t copy(const SeekParams& p, const Stretch<K, V>* all, uint32_t n) {
  const uint32_t lane = lane_index();
  const CachePolicy passing = evict_first();  // otherwise leaves would displace the index
  uint32_t bits = 2, copied = 0;
  while (ballot(kAll, n > 1u << bits) != 0) bits++;
  const uint32_t i = lane & ((1u << bits) - 1), step = kWarp >> bits;
  for (uint32_t r = 0; r < kWarp; r += kAbreast * step) {
    bool there[kAbreast];
    K key[kAbreast];
    V val[kAbreast];
#pragma unroll
    for (uint32_t q = 0; q < kAbreast; q++) {
      const Stretch<K, V>& s = all[(r + q * step + (lane >> bits)) % kWarp];
      there[q] = r + q * step < kWarp && i < s.n;
      uint32_t m = 0;
#pragma unroll
      for (uint32_t x = 0; x + 1 < kInFlight; x++) m += s.parts[x].end <= i;
      const Part<K, V> part = s.parts[m];
      const uint32_t at = p.backward ? part.first - i : part.first + i;
      if (there[q]) key[q] = load_weak(part.leaf->keys + at, passing);
      if (there[q] && p.vals) val[q] = load_weak(part.leaf->vals + at, passing);
    }
#pragma unroll
    for (uint32_t q = 0; q < kAbreast; q++) {
      const Stretch<K, V>& s = all[(r + q * step + (lane >> bits)) % kWarp];
      const bool in = there[q] && (p.backward ? key[q] >= s.end : key[q] <= s.end);
      const uint32_t which = ballot(kAll, in), of = lane - (r + q * step);
      if (of < step) copied = popcount(which >> (of << bits) & (kAll >> (kWarp - (1u << bits))));
      const uint64_t row = s.row + i;
      if (!in || row >= p.rows) continue;
      if (p.keys) store_once(static_cast<K*>(p.keys) + (row - p.first), K(key[q] ^ K(p.x.flip)));
      if (p.vals) store_once(static_cast<V*>(p.vals) + (row - p.first), val[q]);
    }
  }
  return copied;
}

// range copies the pairs of ranges, one range per lane. The number of pairs per range is limited by
// offsets, or by limit.
template <class K, class V>
__device__ __forceinline__ void range(const SeekParams& p) {
  __shared__ Stretch<K, V> stretches[kWarps][kWarp];
  __shared__ Top<K> top;
  Stretch<K, V>* all = stretches[thread_in_block() / kWarp];
  const uint32_t leaves = p.x.content->leaves;
  const Levels<K> below = top.read(p.x, leaves);
  const Tile<K> tile;
  uint32_t hits = 0;
  for (uint64_t first = thread_index() - tile.lane; first < p.n; first += threads_in_grid()) {
    const uint64_t i = first + tile.lane;
    const K flip = p.x.flip, lo = i < p.n ? key_in(p.lo, i, flip) : 1, hi = i < p.n ? key_in(p.hi, i, flip) : 0;
    Spot s{};
    const K key = p.backward ? hi : lo;
    if (leaves != 0) s = spot<K, V>(p.x, tile, leaves, key, below, top.node(leaves, below, key));
    Walk<K> w{s.place, p.backward ? lo : hi, p.limit, i * p.limit};
    if (p.backward) w.at.at += s.same;
    if (p.offsets && i < p.n) w.row = p.offsets[i], w.n = p.offsets[i + 1] - w.row;
    if (lo > hi || leaves == 0) w.n = 0;
    uint32_t n = 0;
    while (ballot(kAll, w.n != 0) != 0) {
      sync_warp();
      const uint32_t most = ahead<K, V>(p, leaves, w, all[tile.lane]);
      sync_warp();
      const uint32_t copied = copy<K, V>(p, all, most);
      n += copied;
      pass(p, w, all[tile.lane], copied);
    }
    if (i < p.n && p.counts) p.counts[i] = n;
    hits += n != 0;
  }
  if (p.hits) add_warp_sum(p.hits, hits);
}

}  // namespace weft::ordered
