// Common functions of the kernels for sorted arrays. They compute how pairs move in a merge with a
// batch, and write the index. No other launch reads the memory that these kernels write.
#pragma once

#include "array.cuh"

namespace weft::sorted {

// State describes an entry. kWillBe: its key is present afterwards. kWas: its key was present
// before.
enum State : uint8_t { kWillBe = 1, kWas = 2 };

// behind returns the number of entries at or before pair number `at` of the old array. The result
// must be in [lo,hi].
__device__ __forceinline__ uint32_t behind(const uint32_t* places, uint32_t lo, uint32_t hi, uint64_t at) {
  return first(lo, hi, [&](uint32_t e) { return places[e] > at; });
}

// shifted returns a place moved by a sum of deltas.
__device__ __forceinline__ uint64_t shifted(uint64_t at, uint32_t by) { return at + int64_t(int32_t(by)); }

constexpr uint32_t kMoves = 8;  // number of pairs that a thread moves

// index_node writes the last key of node i to the index levels above. Node i must be full. The key
// goes to the lowest level. If it is the last key of a node there, it also goes to the next level,
// and so on.
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
