// Memory layout of package slab (Go twin: slab/layout.go), and how tiles read it.
#pragma once

#include "alloc.cuh"
#include "change.cuh"
#include "tile.cuh"

namespace weft::slab {

constexpr uint32_t kSlabBytes = 128;

// Link is the end of a slab. In a slab of all ones it means nothing.
struct Link {
  uint32_t tail;  // in a base slab of a multimap: a slab near the end of the chain
  uint32_t next;
};

// kSlots is the number of slots of a slab: the paper's M.
template <class S>
constexpr uint32_t kSlots = (kSlabBytes - sizeof(Link)) / sizeof(typename S::Word);

// Table is passed by value to every kernel.
struct Table {
  Word128* slabs;  // buckets + 1 base slabs; the last holds keys that look like sentinels
  Counters* counters;
  Allocator alloc;
  uint64_t seed;
  uint32_t buckets;
  uint32_t unused;

  // slab returns the slab at an address, or the base slab of a bucket.
  __device__ __forceinline__ Word128* slab(uint32_t bucket, uint32_t at) const {
    if (at == kNoUnit) return slabs + uint64_t(bucket) * (kSlabBytes / 16);
    return static_cast<Word128*>(alloc.at(at));
  }
};

__device__ __forceinline__ Link* link_of(Word128* slab) { return reinterpret_cast<Link*>(slab + 8) - 1; }

// kNoSlots replaces a link in searches for keys: slots without keys.
template <class S>
constexpr uint64_t kNoSlots = uint64_t(S::kNone) >> 32 == 0 ? S::kNone * 0x1'0000'0001ul : uint64_t(S::kNone);

// locate returns the bucket of a key. Keys that look like sentinels live in the extra bucket, in
// another form.
template <class S>
__device__ __forceinline__ uint32_t locate(const Table& t, typename S::Key key) {
  using Key = typename S::Key;
  if (key >= S::kNone) return t.buckets;
  return uint32_t(reduce(hash(key, t.seed), Key(t.buckets)));
}
// kArcs: a slot has the lower half of a key; the upper half determines its place (slab_arcs.cuh).
template <class S>
constexpr bool kArcs = false;
template <class S>
__device__ __forceinline__ typename S::Key stored(typename S::Key key) {
  if constexpr (kArcs<S>) return uint32_t(key) >= S::kNone ? uint32_t(~key) : uint32_t(key);
  return key >= S::kNone ? ~key : key;
}
// original returns the user's key.
template <class S>
__device__ __forceinline__ typename S::Key original(const Table& t, typename S::Key key, uint32_t bucket) {
  return bucket == t.buckets ? ~key : key;
}

// ---- a tile reads a slab ---------------------------------------------------

// A tile of four lanes reads a slab in two pieces of 16 bytes each: 128 bytes at once, and a warp
// works on eight operations. With the paper's warp of 32 lanes of four bytes the same memory yields
// 15 G lookups a second, here 30: one GPU, 2^25 keys (lab/NOTES.md has the tables).
constexpr int kLanes = 4, kPieces = 2;

template <class S>
struct SlabTile : Tile<S, kLanes, kPieces> {
  using Base = Tile<S, kLanes, kPieces>;
  using typename Base::Piece;
  using Word = typename S::Word;

  Word128* slab = nullptr;  // what was loaded
  Link link;                // its link

  __device__ __forceinline__ Word* at(int v, int j) const {
    return reinterpret_cast<Word*>(slab + v * kLanes + this->rank) + j;
  }
  // meet comes before a lookup reads a slab that a link has led to: the pool may have grown, and
  // the slab have been linked, since the launch. One lane has read the link. Changes need none of
  // this: a launch can only reach older slabs and those that it allocates itself. Before the first
  // slab of a chain it would cost lookups a sixth of their speed.
  __device__ __forceinline__ void meet(const Table& t, uint32_t at) const { t.alloc.meet(at, Base::kMask << this->base); }
  // load reads the slab at an address, or the base slab of a bucket.
  __device__ __forceinline__ void load(const Table& t, uint32_t bucket, uint32_t at, bool busy) {
    uint64_t end = 0;
    if (busy) {
      slab = t.slab(bucket, at);
#pragma unroll
      for (int v = 0; v < kPieces; v++) this->piece[v].whole = load_relaxed(slab + v * kLanes + this->rank);
      uint64_t& last = this->piece[kPieces - 1].whole.y;
      end = last;
      if (this->rank == kLanes - 1) last = kNoSlots<S>;
    }
    end = shuffle(kAll, end, this->base + kLanes - 1);
    link = {uint32_t(end), uint32_t(end >> 32)};
  }
  // first returns the lanes with a slot `number` (-1: none) in the first piece that has any: the
  // lowest of them has the first slot of the slab.
  __device__ __forceinline__ uint32_t first(int number) const {
    uint32_t lanes = 0;
#pragma unroll
    for (int v = kPieces - 1; v >= 0; v--) {
      uint32_t l = this->vote(number >= 0 && number / Base::kSlots == v);
      lanes = l ? l : lanes;
    }
    return lanes;
  }
};

}  // namespace weft::slab
