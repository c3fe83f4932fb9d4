// Memory layout of package slab: the C++ twin of layout.go, and the parameters
// of its kernels.
#pragma once

#include "tuning.cuh"
#include "weft/alloc.cuh"
#include "weft/batch.cuh"
#include "weft/hash.cuh"
#include "weft/spread.cuh"
#include "weft/tile.cuh"

namespace weft::slab {

constexpr uint32_t kSlabBytes = 128;

// Link is the end of a slab, and what a slab of all ones has there: nothing.
struct Link {
  uint32_t tail;  // in a base slab of a multimap: a slab near the end of the chain
  uint32_t next;
};

// The slots of a slab: the paper's M.
template <class S>
constexpr uint32_t kSlots = (kSlabBytes - sizeof(Link)) / sizeof(typename S::Word);

// Table is passed by value to every kernel.
struct Table {
  Word128* slabs;  // buckets + 1 base slabs; the last is for keys that look like sentinels
  Counters* counters;
  Allocator alloc;
  uint64_t seed;
  uint32_t buckets;
  uint32_t unused;

  // slab is the slab at an address, or the base slab of a bucket.
  __device__ __forceinline__ Word128* slab(uint32_t bucket, uint32_t at) const {
    if (at == kNoUnit) return slabs + uint64_t(bucket) * (kSlabBytes / 16);
    return static_cast<Word128*>(alloc.at(at));
  }
};

__device__ __forceinline__ Link* link_of(Word128* slab) { return reinterpret_cast<Link*>(slab + 8) - 1; }

// locate gives the bucket of a key. Keys that look like sentinels live in the
// extra bucket, under another name.
template <class S>
__device__ __forceinline__ uint32_t locate(const Table& t, typename S::Key key) {
  using Key = typename S::Key;
  if (key >= S::kNone) return t.buckets;
  return uint32_t(reduce(hash(key, t.seed), Key(t.buckets)));
}
template <class S>
__device__ __forceinline__ typename S::Key stored(typename S::Key key) {
  return key >= S::kNone ? ~key : key;
}
// original is the key as the caller named it.
template <class S>
__device__ __forceinline__ typename S::Key original(const Table& t, typename S::Key key, uint32_t bucket) {
  return bucket == t.buckets ? ~key : key;
}

// ---- parameters ------------------------------------------------------------


// SEARCHALL, first how many, then which.
struct TallyParams {
  Table table;
  const void* keys;
  uint32_t* counts;
  uint64_t n;
};
struct CollectParams {
  Table table;
  const void* keys;
  const uint64_t* offsets;  // n + 1
  void* vals;      // from row first on
  uint64_t first;  // row that is written; no key ends before it
  uint64_t rows;   // the one behind the last that is
  uint32_t* found;  // how many pairs each key has now; may be null
  uint64_t n;
};

struct RehashParams {
  Table from, to;
  uint32_t* lost;  // added to: pairs without room
};

struct FlushParams {
  Table table;
};

struct ChainParams {
  Table table;
  uint64_t* lengths;  // 32: buckets of 0, 1, … slabs; the last of 31 and more
};

}  // namespace weft::slab
