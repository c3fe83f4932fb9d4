// Prefix sums of one number per tile by decoupled look-back (Merrill and Garland, "Single-pass
// Parallel Prefix Scan with Decoupled Look-back", 2016).
#pragma once

#include "warp.cuh"

namespace weft::prim {

// A status word has a tag in its upper two bits, and a sum below it. Tag 0 means that no sum is
// stored yet. With kOfTile the sum is that of the tile. With kUpTo it is the sum of all tiles up to
// and including the tile. Each word is self-contained, so relaxed accesses suffice. Sums are taken
// modulo 2^62.
constexpr uint32_t kTagShift = 62;
constexpr uint64_t kOfTile = 1, kUpTo = 2, kSumMask = (uint64_t(1) << kTagShift) - 1;

// sum_of_warp returns the sum of v over the lanes of a warp.
__device__ __forceinline__ uint64_t sum_of_warp(uint64_t v) {
#pragma unroll
  for (uint32_t d = 1; d < kWarp; d *= 2) v += shuffle(kAll, v, lane_index() ^ d);
  return v;
}

// sum_before publishes the sum of a tile, and returns the sum of all tiles before it. One warp
// calls it, and reads the words of 32 tiles at a time. Tiles are numbered in the order in which
// blocks begin. So the blocks of all earlier tiles have begun, and the block of the first tile
// waits for none.
__device__ __forceinline__ uint64_t sum_before(uint64_t* status, uint32_t tile, uint64_t sum) {
  uint32_t lane = lane_index(), up_to = 0;
  if (lane == 0) store_relaxed(status + tile, (tile > 0 ? kOfTile : kUpTo) << kTagShift | (sum & kSumMask));
  if (tile == 0) return 0;
  uint64_t mine = 0;
  for (uint32_t end = tile; !up_to;) {
    uint64_t word = lane < end ? load_relaxed(status + (end - 1 - lane)) : kUpTo << kTagShift;
    uint32_t none = ballot(kAll, word >> kTagShift == 0), known = ballot(kAll, word >> kTagShift == kUpTo);
    // the lanes up to the first lane with kUpTo, or all lanes if none has it
    uint32_t needed = known ^ (known - 1);
    if (none & needed) continue;
    if (needed >> lane & 1) mine += word & kSumMask;
    up_to = known;
    end -= kWarp;
  }
  uint64_t before = sum_of_warp(mine);
  if (lane == 0) store_relaxed(status + tile, kUpTo << kTagShift | ((before + sum) & kSumMask));
  return before;
}

// Tiles is a block's shared memory: the number of its tile, and the sum of all tiles before it.
struct Tiles {
  uint32_t ticket, unused;
  uint64_t before;
};

// begin_tile returns the number of a block's tile, in the order in which blocks begin. All threads
// of the block must call it.
__device__ __forceinline__ uint32_t begin_tile(Tiles* t, uint32_t* next) {
  if (thread_in_block() == 0) store_weak(shared(&t->ticket), add_relaxed(next, 1u));
  sync_block();
  return load_weak(shared(&t->ticket));
}

// block_before returns the sum of all items before this warp, in the tile and in all earlier tiles.
// sum is the sum of the warp's items, and sums has a word for each warp of the block. total becomes
// the sum of all items up to the end of the tile.
template <uint32_t Warps>
__device__ __forceinline__ uint64_t block_before(Tiles* t, Shared<uint64_t> sums, uint64_t* status, uint32_t tile, uint64_t sum, uint64_t& total) {
  uint32_t lane = lane_index(), warp = thread_in_block() / kWarp;
  if (lane == 0) store_weak(sums + warp, sum);
  sync_block();
  uint64_t below = 0, all = 0;
#pragma unroll
  for (uint32_t w = 0; w < Warps; w++) {
    uint64_t s = load_weak(sums + w);
    all += s;
    if (w < warp) below += s;
  }
  if (warp == 0) {
    uint64_t before = sum_before(status, tile, all);
    if (lane == 0) store_weak(shared(&t->before), before);
  }
  sync_block();
  uint64_t before = load_weak(shared(&t->before));
  total = before + all;
  return before + below;
}

}  // namespace weft::prim
