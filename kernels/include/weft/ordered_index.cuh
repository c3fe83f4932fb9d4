// Memory layout of an ordered map, and searches in its index. layout.go, index.go and gpu_pool.go
// of package ordered explain the layout.
#pragma once

#include "inorder.cuh"

namespace weft::ordered {

using namespace inorder;

constexpr uint32_t kPairs = 32;           // maximum number of pairs of a leaf
constexpr uint32_t kFanBits = 4;          // a node has 16 separators
constexpr uint32_t kFanout = 1 << kFanBits;
constexpr uint32_t kFirstBlockBits = 6;   // the first block has 64 leaves

// fetch prefetches a line into the L2 cache.
__device__ __forceinline__ void fetch(const void* line) { asm volatile("prefetch.global.L2 [%0];" ::"l"(line)); }

// Leaf holds up to kPairs pairs. The keys after the last pair repeat its key.
template <class K, class V>
struct alignas(128) Leaf {
  K keys[kPairs];
  V vals[kPairs];
};

struct Content {
  uint64_t live, leaves;
  uint64_t taken;  // number of free leaves that this version and earlier ones took
};

// Index is a version of a map. Neither the index nor its leaves change after lookups can read it.
struct Index {
  void* seps;  // separators of all levels, the highest level first
  uint32_t* ids;
  uint8_t* sizes;
  uint64_t* ranks;
  Content* content;
  const uint64_t* blocks;  // for each block: address that leaf 0 would have in it
  uint64_t flip;           // mask that turns keys into unsigned numbers in key order
  uint32_t levels;
  uint32_t nodes;  // number of allocated nodes of the lowest level
};

// nodes_of returns the number of allocated nodes of a level. The lowest level is 0.
__device__ __forceinline__ uint32_t nodes_of(const Index& x, uint32_t level) {
  return ((x.nodes - 1) >> (kFanBits * level)) + 1;
}

// lowest_level returns the separators of the lowest level, which has one for each leaf.
template <class K>
__device__ __forceinline__ K* lowest_level(const Index& x) {
  uint64_t nodes = 0;
  for (uint32_t l = x.levels; l-- > 1;) nodes += nodes_of(x, l);
  return static_cast<K*>(x.seps) + nodes * kFanout;
}

template <class K, class V>
__device__ __forceinline__ Leaf<K, V>* leaf_at(const Index& x, uint32_t id) {
  const uint32_t high = id >> kFirstBlockBits, block = high == 0 ? 0 : highest(high) + 1;
  return reinterpret_cast<Leaf<K, V>*>(x.blocks[block] + uint64_t(id) * sizeof(Leaf<K, V>));
}

// Keys holds keys that a thread reads by one load of 16 bytes.
template <class K>
struct Keys {
  static constexpr uint32_t kNumber = 16 / sizeof(K);
  union {
    Word128 word;
    K key[kNumber];
  };
  __device__ __forceinline__ explicit Keys(Word128 w) : word(w) {}
  __device__ __forceinline__ uint32_t smaller(K than) const {
    uint32_t n = 0;
#pragma unroll
    for (uint32_t j = 0; j < kNumber; j++) n += key[j] < than;
    return n;
  }
  __device__ __forceinline__ uint32_t not_above(K than) const {
    uint32_t n = 0;
#pragma unroll
    for (uint32_t j = 0; j < kNumber; j++) n += key[j] <= than;
    return n;
  }
  // same returns the index of the key that is equal, or kNumber.
  __device__ __forceinline__ uint32_t same(K as) const {
    uint32_t n = kNumber;
#pragma unroll
    for (uint32_t j = kNumber; j-- != 0;) n = key[j] == as ? j : n;
    return n;
  }
};

// Levels describes the lowest `number` levels of an index.
template <class K>
struct Levels {
  const K* seps;
  uint32_t number;
  __device__ __forceinline__ Levels(const Index& x) : seps(static_cast<const K*>(x.seps)), number(x.levels) {}
  // pass removes the highest level.
  __device__ __forceinline__ void pass(const Index& x) { seps += uint64_t(nodes_of(x, --number)) * kFanout; }
};

// ---- searches by a thread ----------------------------------------------------

// leaf_of returns the leaf to which a key belongs; `last` is the last leaf. Use it if neighboring
// threads search for keys that are close together.
template <class K>
__device__ __forceinline__ uint32_t leaf_of(const Index& x, uint32_t last, K key) {
  uint32_t at = 0;
  for (Levels<K> below(x); below.number != 0;) {
    const Word128* node = reinterpret_cast<const Word128*>(below.seps + uint64_t(at) * kFanout);
    uint32_t n = 0;
#pragma unroll
    for (uint32_t i = 0; i < kFanout / Keys<K>::kNumber; i++) n += Keys<K>(load_weak(node + i)).not_above(key);
    below.pass(x);
    const uint32_t end = last >> (kFanBits * below.number), to = at * kFanout + n - 1;
    at = to < end ? to : end;
  }
  return at;
}

// lower returns how many of the first n keys of a leaf are smaller than a key.
template <class K, class V>
__device__ __forceinline__ uint32_t lower(const Leaf<K, V>* leaf, uint32_t n, K key) {
  uint32_t at = 0;
#pragma unroll
  for (uint32_t step = kPairs / 2; step != 0; step /= 2)
    if (leaf->keys[at + step - 1] < key) at += step;
  at += leaf->keys[at] < key;
  return at < n ? at : n;
}

// ---- searches by a tile ------------------------------------------------------

// Tile is the group of lanes that read a node at once, 16 bytes each. A tile reads the keys of a
// leaf by two reads.
template <class K>
struct Tile {
  static constexpr uint32_t kLanes = kFanout / Keys<K>::kNumber;
  static constexpr uint32_t kMask = (1u << kLanes) - 1;
  uint32_t lane = lane_index();
  uint32_t rank = lane % kLanes;
  uint32_t base = lane - rank;

  __device__ __forceinline__ uint32_t vote(bool p) const { return ballot(kAll, p) >> base & kMask; }

  // sum returns the sum of `own` over the lanes of a tile. If a lane has less than kNumber, all
  // earlier lanes must have kNumber, and all later lanes 0.
  __device__ __forceinline__ uint32_t sum(uint32_t own) const {
    const uint32_t full = popcount(vote(own == Keys<K>::kNumber));
    const uint32_t part = shuffle(kAll, own, base + (full < kLanes ? full : kLanes - 1));
    return full == kLanes ? kFanout : full * Keys<K>::kNumber + part;
  }

  // part returns this lane's part of 16 keys.
  __device__ __forceinline__ const void* part(const K* keys) const { return keys + rank * Keys<K>::kNumber; }
};

constexpr uint32_t kTogether = 4;  // number of keys for which a tile searches at a time

// down finds the leaves to which keys of a tile belong. On entry at[q] is the node of key[q] in the
// highest level of `below`. `last` is the last leaf. All lanes of a warp must call it.
template <class K>
__device__ __forceinline__ void down(const Index& x, Levels<K> below, const Tile<K>& tile, uint32_t last, const K (&key)[kTogether],
                                     uint32_t (&at)[kTogether]) {
  while (below.number != 0) {
    Word128 word[kTogether];
#pragma unroll
    for (uint32_t q = 0; q < kTogether; q++) word[q] = load_weak(static_cast<const Word128*>(tile.part(below.seps + uint64_t(at[q]) * kFanout)));
    below.pass(x);
    const uint32_t end = last >> (kFanBits * below.number);
#pragma unroll
    for (uint32_t q = 0; q < kTogether; q++) {
      const uint32_t to = at[q] * kFanout + tile.sum(Keys<K>(word[q]).not_above(key[q])) - 1;
      at[q] = to < end ? to : end;
    }
  }
}

// ---- places ------------------------------------------------------------------

// Place is a place in a leaf: the number of the leaf in the index, and the number of pairs before
// the place.
struct Place {
  uint32_t leaf, at;
};

// sum_of returns the sum of the first n of the 16 sizes of a node.
__device__ __forceinline__ uint32_t sum_of(const uint8_t* sizes, uint32_t n) {
  constexpr uint64_t kEven = 0x00ff00ff00ff00ffull;
  const Word128 w = load_weak(reinterpret_cast<const Word128*>(sizes));
  const uint32_t first = n < 8 ? n : 8, second = n - first;
  uint64_t a = first == 0 ? 0 : w.x << (64 - 8 * first), b = second == 0 ? 0 : w.y << (64 - 8 * second);
  a = (a & kEven) + (a >> 8 & kEven) + (b & kEven) + (b >> 8 & kEven);
  return uint32_t(a * 0x0001000100010001ull >> 48);
}

// before returns the number of pairs in all leaves before a leaf.
__device__ __forceinline__ uint64_t before(const Index& x, uint32_t leaf) {
  const uint32_t in = leaf % kFanout;
  return x.ranks[leaf / kFanout] + (in == 0 ? 0 : sum_of(x.sizes + (leaf - in), in));
}

// place_of returns the place of the pair with a rank. The pair must exist. Leaves have similar
// numbers of pairs, so the search begins near the result.
__device__ __forceinline__ Place place_of(const Index& x, const Content& c, uint64_t rank) {
  const uint32_t nodes = uint32_t((c.leaves - 1) / kFanout) + 1;
  uint32_t lo = uint32_t(float(rank) / float(c.live) * float(nodes)), hi, step = 1;
  if (lo >= nodes) lo = nodes - 1;
  if (x.ranks[lo] <= rank) {
    for (hi = lo + 1; hi < nodes && x.ranks[hi] <= rank; step *= 2) lo = hi, hi = hi + step < nodes ? hi + step : nodes;
  } else {
    for (hi = lo; lo = hi > step ? hi - step : 0, x.ranks[lo] > rank; step *= 2) hi = lo;
  }
  while (hi - lo > 1) {  // the node is one of [lo,hi)
    const uint32_t mid = lo + (hi - lo) / 2;
    if (x.ranks[mid] <= rank) lo = mid;
    else hi = mid;
  }
  Place at{lo * kFanout, uint32_t(rank - x.ranks[lo])};
  while (at.at >= x.sizes[at.leaf]) at.at -= x.sizes[at.leaf++];
  return at;
}

}  // namespace weft::ordered
