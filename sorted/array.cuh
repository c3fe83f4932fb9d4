// The memory of a sorted array, and searches in it (twin: layout.go).
#pragma once

#include "weft/inorder.cuh"

namespace weft::sorted {

using namespace inorder;

constexpr uint32_t kBlock = 256;     // threads per block, as in internal/gpu
constexpr uint32_t kFanBits = 4;     // a node has 16 keys
constexpr uint32_t kFan = 1 << kFanBits;
constexpr uint64_t kAlign = 256;     // alignment of levels

// Array is a generation. Except for its counters, it is immutable once lookups can read it.
struct Array {
  void* keys;
  void* vals;
  void* index;         // levels of the index, the lowest first
  Counters* counters;  // number of pairs
  uint64_t room;       // capacity in pairs
  uint64_t flip;       // XOR with flip turns keys into unsigned numbers in key order
};

template <class K>
__device__ __forceinline__ K* keys_of(const Array& a) { return static_cast<K*>(a.keys); }

template <class V>
__device__ __forceinline__ V* vals_of(const Array& a) { return static_cast<V*>(a.vals); }

// level_bytes returns the size of a level of the index in bytes. The lowest level is 1.
template <class K>
__device__ __forceinline__ uint64_t level_bytes(const Array& a, uint32_t level) {
  return ((a.room >> (kFanBits * level)) * sizeof(K) + kAlign - 1) & ~(kAlign - 1);
}

// node returns the number of keys in a level that are smaller than `key`. The caller guarantees two
// things: all keys before node number `at` are smaller, and no key after this node is smaller. A
// node without a key in the level above is the last node, and is not full.
template <class K>
__device__ __forceinline__ uint64_t node(const K* level, uint64_t size, uint64_t at, K key) {
  at <<= kFanBits;
  uint32_t smaller = 0;
  if (at + kFan <= size) {
    struct alignas(16) Vector {
      K key[16 / sizeof(K)];
    };
    const Vector* of = reinterpret_cast<const Vector*>(level + at);
#pragma unroll
    for (uint32_t i = 0; i < kFan * sizeof(K) / 16; i++) {
      const Vector v = of[i];
#pragma unroll
      for (uint32_t j = 0; j < 16 / sizeof(K); j++) smaller += v.key[j] < key;
    }
    return at + smaller;
  }
  while (at + smaller < size && level[at + smaller] < key) smaller++;
  return at + smaller;
}

// place returns the number of smaller keys among the first n keys. It descends the index.
template <class K>
__device__ __forceinline__ uint64_t place(const Array& a, uint64_t n, K key) {
  const char* level = static_cast<const char*>(a.index);
  uint32_t top = 0;
  while (n >> (kFanBits * (top + 1)) != 0) level += level_bytes<K>(a, ++top);
  uint64_t at = 0;
  for (; top != 0; top--) {
    level -= level_bytes<K>(a, top);
    at = node(reinterpret_cast<const K*>(level), n >> (kFanBits * top), at, key);
  }
  return node(keys_of<K>(a), n, at, key);
}

// Span is a range [from,to) of pairs.
struct Span {
  uint64_t from, to;
};

// span returns the pairs from key lo to key hi that b selects. Both keys are unsigned numbers.
template <class K>
__device__ __forceinline__ Span span(const Array& a, uint64_t n, K lo, K hi, Bounds b) {
  Span s{place(a, n, lo), 0};
  s.to = s.from;
  if (lo > hi) return s;
  s.to = place(a, n, hi);
  if (s.to < n && keys_of<K>(a)[s.to] == hi) s.to++;
  bound(s.from, s.to, b);
  return s;
}

}  // namespace weft::sorted
