// Tile is a group of neighboring lanes of a warp that read the slots of a bucket together. Each
// lane reads 16 bytes at a time.
#pragma once

#include "slot.cuh"

namespace weft {

// Piece v of lane l is number v * Lanes + l among the pieces that the tile reads.
template <class S, int Lanes, int Pieces>
struct Tile {
  using Word = typename S::Word;

  static constexpr int kSlots = 16 / sizeof(Word);  // number of slots in a piece
  static constexpr uint32_t kMask = (1u << Lanes) - 1;

  uint32_t lane = lane_index();
  uint32_t rank = lane % Lanes;  // number of this lane in its tile
  uint32_t base = lane - rank;   // first lane of the tile

  union Piece {
    Word128 whole;
    Word slots[kSlots];
    __device__ Piece() {}
  };
  Piece piece[Pieces];

  // each calls f(v, j, word) for the slots of this lane, in path order.
  template <class F>
  __device__ __forceinline__ void each(F f) const {
#pragma unroll
    for (int v = 0; v < Pieces; v++)
#pragma unroll
      for (int j = 0; j < kSlots; j++) f(v, j, piece[v].slots[j]);
  }
  // word returns slot `number` of this lane. It selects among registers, so that no second copy of
  // a word occupies registers.
  __device__ __forceinline__ Word word(int number) const {
    Word w = piece[0].slots[0];
    each([&](int v, int j, Word x) {
      if (v * kSlots + j == number) w = x;
    });
    return w;
  }
  // vote returns the mask of the lanes of this tile that have p.
  __device__ __forceinline__ uint32_t vote(bool p) const { return ballot(kAll, p) >> base & kMask; }
};

// Deal distributes the operations that some lanes of a warp have left over to the tiles of the
// warp, as evenly as possible. All lanes must construct it.
template <int Lanes>
struct Deal {
  uint32_t from;  // the lane from which this lane receives an operation, or kWarp
  uint32_t to;    // the lane that receives this lane's operation

  __device__ __forceinline__ explicit Deal(bool has) {
    constexpr uint32_t tiles = kWarp / Lanes;
    uint32_t left = ballot(kAll, has), lane = lane_index(), number = popcount(left & ((1u << lane) - 1));
    from = select(left, lane % Lanes * tiles + lane / Lanes);
    to = number % tiles * Lanes + number / tiles;
  }
};

}  // namespace weft
