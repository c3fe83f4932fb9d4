// A tile reads a slab.
#pragma once

#include "layout.cuh"

namespace weft::slab {

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
  // meet comes before a lookup reads a slab that a link has led to: the pool may
  // have grown, and the slab have been linked, since the launch. One lane has
  // read the link. Changes need none of this: a launch knows all slabs but those
  // that it takes itself. Before the first slab of a chain it would cost lookups a
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
      // To those who look for keys, the link is slots of none.
      constexpr uint64_t none = sizeof(typename S::Key) == 4 ? S::kNone * 0x1'0000'0001ul : S::kNone;
      if (this->rank == kLanes - 1) last = none;
    }
    end = shuffle(kAll, end, this->base + kLanes - 1);
    link = {uint32_t(end), uint32_t(end >> 32)};
  }
  // first is the lanes whose slot `number` (-1: none) lies in the first piece
  // that has any: the lowest of them has the first slot of the slab.
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
