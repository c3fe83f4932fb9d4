// Decoupled look-back over one number per tile (Merrill and Garland,
// "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016).
#pragma once

#include "warp.cuh"

namespace weft::prim {

// A word of status is a sum below a tag in the upper two bits: none yet, the sum of the tile, or
// that of all tiles up to it. Each word is self-contained, so relaxed accesses suffice. Sums are
// taken modulo 2^62.
constexpr uint32_t kTagShift = 62;
constexpr uint64_t kOfTile = 1, kUpTo = 2, kSumMask = (uint64_t(1) << kTagShift) - 1;

// sum_of_warp returns a warp's sum of v.
__device__ __forceinline__ uint64_t sum_of_warp(uint64_t v) {
#pragma unroll
  for (uint32_t d = 1; d < kWarp; d *= 2) v += shuffle(kAll, v, lane_index() ^ d);
  return v;
}

// sum_before publishes the sum of a tile and returns that of the tiles before it. One warp calls
// it, and reads the words of 32 tiles at a time. Tiles are numbered in the order in which blocks
// begin. So all before this one are running, and the first waits for none.
__device__ __forceinline__ uint64_t sum_before(uint64_t* status, uint32_t tile, uint64_t sum) {
  uint32_t lane = lane_index(), up_to = 0;
  if (lane == 0) store_relaxed(status + tile, (tile > 0 ? kOfTile : kUpTo) << kTagShift | (sum & kSumMask));
  if (tile == 0) return 0;
  uint64_t mine = 0;
  for (uint32_t end = tile; !up_to;) {
    uint64_t word = lane < end ? load_relaxed(status + (end - 1 - lane)) : kUpTo << kTagShift;
    uint32_t none = ballot(kAll, word >> kTagShift == 0), known = ballot(kAll, word >> kTagShift == kUpTo);
    // The lanes up to the first with the sum of all tiles up to it.
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

// Tiles holds a block's tile, and the sum before it, in shared memory.
struct Tiles {
  uint32_t ticket, unused;
  uint64_t before;
};

// begin_tile numbers the tiles in the order in which blocks begin.
__device__ __forceinline__ uint32_t begin_tile(Tiles* t, uint32_t* next) {
  if (thread_in_block() == 0) store_weak(shared(&t->ticket), add_relaxed(next, 1u));
  sync_block();
  return load_weak(shared(&t->ticket));
}

// block_before returns the sum of all items before this warp, in this tile and those before it,
// from the sums of warps. sums has a word for each warp of the block. total becomes the sum up to
// the end of the tile.
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
