// What the kernels of sorted arrays share: how operations on a key run in their order, how pairs
// move when a batch is merged with them, and how their index is written. They write to memory that
// no other launch reads meanwhile.
#pragma once

#include "array.cuh"

namespace weft::sorted {

// Kinds beside those of order.cuh (internal/op).
enum Seek : uint32_t { kRank = 12, kSelect, kSuccessor, kPredecessor };

// add_up adds numbers of all lanes of a warp to a place.
__device__ __forceinline__ void add_up(uint64_t* to, uint32_t n) {
  for (uint32_t x = kWarp / 2; x != 0; x /= 2) n += shuffle_xor(kAll, n, x);
  if (lane_index() == 0 && n != 0) add_relaxed(to, uint64_t(n));
}

// ---- changes ---------------------------------------------------------------

// State is what becomes of an entry: it will have a place, and takes that of a pair.
enum State : uint8_t { kWillBe = 1, kWas = 2 };

// Slot is what there is of a key while its operations run.
template <class V>
struct Slot {
  bool there;
  V val;
};

// run runs operation i of a batch, whose columns and kind Params have, on the slot of its key.
template <class V, class Params>
__device__ __forceinline__ void run(const Params& p, uint32_t i, Slot<V>& s) {
  const uint32_t kind = p.kinds ? p.kinds[i] : p.kind;
  bool ok = false;
  V out = 0;
  if (kind == kGet) {
    ok = s.there;
    if (ok) out = s.val;
  } else if (kind == kDelete) {
    ok = s.there;
    s.there = false;
  } else if (kind == kPut || kind == kPutNew || (reduces(kind) && !(kind > kMax && (p.flags & kFloat)))) {
    const V val = static_cast<const V*>(p.vals)[i];
    ok = !s.there;
    if (ok || kind == kPut)
      s.val = val;
    else if (kind == kPutNew)
      out = s.val;
    else
      s.val = combine(kind, p.flags, s.val, val);
    s.there = true;
  }
  if (p.out) static_cast<V*>(p.out)[i] = out;
  if (p.ok) p.ok[i] = ok;
}

// behind is how many entries, of [lo,hi), lie before pair number at of the old array or at it.
__device__ __forceinline__ uint32_t behind(const uint32_t* places, uint32_t lo, uint32_t hi, uint64_t at) {
  while (lo < hi) {
    const uint32_t mid = lo + (hi - lo) / 2;
    if (places[mid] <= at)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

// shifted is a place moved by a sum of deltas.
__device__ __forceinline__ uint64_t shifted(uint64_t at, uint32_t by) { return at + int64_t(int32_t(by)); }

constexpr uint32_t kMoves = 8;  // pairs that a thread moves

// index_node writes what node i of the keys, which is full, is in the levels above: its last key in the
// lowest, and in those above it what is the last of a node.
template <class K>
__device__ __forceinline__ void index_node(const Array& a, uint64_t i) {
  const K key = keys_of<K>(a)[(i << kFanBits) + kFan - 1];
  char* level = static_cast<char*>(a.index);
  uint64_t at = i;
  for (uint32_t l = 1;; l++) {
    reinterpret_cast<K*>(level)[at] = key;
    if (at % kFan != kFan - 1) break;
    at >>= kFanBits;
    level += level_bytes<K>(a, l);
  }
}

}  // namespace weft::sorted
