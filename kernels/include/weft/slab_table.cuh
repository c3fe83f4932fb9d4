// Memory layout of package slab (also in Go: slab/layout.go), and how tiles read it.
#pragma once

#include "alloc.cuh"
#include "change.cuh"
#include "tile.cuh"

namespace weft::slab {

constexpr uint32_t kSlabBytes = 128;

// Link is the last 8 bytes of a slab. In a slab of all ones it refers to no slab.
struct Link {
  uint32_t tail;  // in a base slab of a multimap: a slab near the end of the chain
  uint32_t next;
};

// kSlots is the number of slots of a slab, M in the paper.
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

// kNoSlots replaces the link of a slab in searches for keys. It reads as slots without keys.
template <class S>
constexpr uint64_t kNoSlots = uint64_t(S::kNone) >> 32 == 0 ? S::kNone * 0x1'0000'0001ul : uint64_t(S::kNone);

// locate returns the bucket of a key. Keys that look like sentinels are in the extra bucket. There,
// stored returns their complements.
template <class S>
__device__ __forceinline__ uint32_t locate(const Table& t, typename S::Key key) {
  using Key = typename S::Key;
  if (key >= S::kNone) return t.buckets;
  return uint32_t(reduce(hash(key, t.seed), Key(t.buckets)));
}
// kArcs is true if a slot stores only the lower half of a key. Then the upper half determines the
// bucket (slab_arcs.cuh).
template <class S>
constexpr bool kArcs = false;
template <class S>
__device__ __forceinline__ typename S::Key stored(typename S::Key key) {
  if constexpr (kArcs<S>) return uint32_t(key) >= S::kNone ? uint32_t(~key) : uint32_t(key);
  return key >= S::kNone ? ~key : key;
}
// original returns the user's key of a stored key.
template <class S>
__device__ __forceinline__ typename S::Key original(const Table& t, typename S::Key key, uint32_t bucket) {
  return bucket == t.buckets ? ~key : key;
}

// ---- tiles that read slabs -------------------------------------------------

// A tile of four lanes reads a slab at once, in two pieces of 16 bytes per lane. So a warp works on
// eight operations at a time. On one GPU with 2^25 keys, this yields 30 * 10^9 lookups a second.
// With the paper's 32 lanes per slab, which read four bytes each, the same memory yields 15 * 10^9
// (lab/NOTES.md has the tables).
constexpr int kLanes = 4, kPieces = 2;

template <class S>
struct SlabTile : Tile<S, kLanes, kPieces> {
  using Base = Tile<S, kLanes, kPieces>;
  using typename Base::Piece;
  using Word = typename S::Word;

  Word128* slab = nullptr;  // the loaded slab
  Link link;                // link of the loaded slab

  __device__ __forceinline__ Word* at(int v, int j) const {
    return reinterpret_cast<Word*>(slab + v * kLanes + this->rank) + j;
  }
  // meet must be called before a lookup reads a slab to which a link has led. Since the launch
  // began, the pool may have grown, and a later launch may have linked the slab. One lane has read
  // the link. Changes need no meet, because a launch that changes can reach only older slabs and
  // slabs that it allocates itself. A meet before the first slab of a chain would cost lookups a
  // sixth of their speed.
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
  // first returns the mask of lanes that have a slot in the first piece in which any lane has one.
  // `number` is the slot of this lane, or -1. The lowest of these lanes has the first such slot of
  // the slab.
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
