// User kernels on ordered maps in leaves under an index.
#include "weft/entry.cuh"
#include "weft/ordered.cuh"

using namespace weft;

constexpr int kBlock = 256;

using K = Integer<WEFT_KEY_BITS>::Type;
using V = Integer<WEFT_VALUE_BITS>::Type;

// Questions are queries by order. Each query has space for the same number of pairs.
struct Questions {
  const uint32_t* kinds;
  const K* keys;  // for ranges and counts the smallest key
  const K* to;    // for ranges and counts the largest key
  uint64_t* answers;
  K* keys_out;
  V* vals_out;
  uint32_t n, most;  // number of queries; maximum number of pairs per query
};

enum Question : uint32_t { kFind, kFindWarp, kNext, kBefore, kRank, kSelect, kCount, kRange, kRangeTile, kSize };

struct OrderedParams {
  ordered::Ref<K, V> ref;
  Questions of;
};

// ask runs a query in one lane, in its own branch, after other lanes have returned.
__device__ __forceinline__ uint64_t ask(const OrderedParams& p, uint64_t i, K& k, V& v) {
  const Questions& q = p.of;
  switch (q.kinds[i]) {
    case kFind: return p.ref.find(q.keys[i], &v);
    case kNext: return p.ref.successor(q.keys[i], &k, &v);
    case kBefore: return p.ref.predecessor(q.keys[i], &k, &v);
    case kRank: return p.ref.rank(q.keys[i]);
    case kSelect: return p.ref.select(q.keys[i], &k, &v);
    case kCount: return p.ref.count(q.keys[i], q.to[i]);
    case kSize: return p.ref.size();
  }
  return p.ref.range(q.keys[i], q.to[i], q.most, [&](uint32_t at, K key, V value) {
    q.keys_out[i * q.most + at] = key;
    q.vals_out[i * q.most + at] = value;
  });
}

WEFT_KERNEL(refs_ordered_ask, 1)(OrderedParams p) {
  const uint64_t i = thread_index();
  if (i >= p.of.n || p.of.kinds[i] == kFindWarp || p.of.kinds[i] == kRangeTile) return;
  K k = 0;
  V v = 0;
  p.of.answers[i] = ask(p, i, k, v);
  if (p.of.kinds[i] == kRange) return;
  p.of.keys_out[i * p.of.most] = k;
  p.of.vals_out[i * p.of.most] = v;
}

// Warps run the queries that need a whole warp.
WEFT_KERNEL(refs_ordered_warps, 1)(OrderedParams p) {
  const uint64_t i = thread_index();
  const bool there = i < p.of.n && p.of.kinds[i] == kFindWarp;
  V v = 0;
  const bool found = p.ref.find_warp(there, there ? p.of.keys[i] : K(0), &v);
  if (!there) return;
  p.of.answers[i] = found;
  p.of.vals_out[i * p.of.most] = v;
}

// Each tile lists one range.
WEFT_KERNEL(refs_ordered_tiles, 1)(OrderedParams p) {
  const Questions& q = p.of;
  const uint64_t i = thread_index() / ordered::Ref<K, V>::kTile;
  if (i >= q.n || q.kinds[i] != kRangeTile) return;
  const uint32_t n = p.ref.range_tile(q.keys[i], q.to[i], q.most, [&](uint32_t at, K key, V value) {
    q.keys_out[i * q.most + at] = key;
    q.vals_out[i * q.most + at] = value;
  });
  if (lane_index() % ordered::Ref<K, V>::kTile == 0) q.answers[i] = n;
}
