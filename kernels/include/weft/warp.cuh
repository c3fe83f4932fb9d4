// Basic functions of every weft kernel for threads, warps and blocks. The headers that this file
// includes define memory accesses.
#pragma once

#include "access.cuh"
#include "cuda.cuh"
#include "shared.cuh"

namespace weft {

constexpr uint32_t kWarp = 32;
constexpr uint32_t kAll = 0xffffffffu;

// ---- indices ---------------------------------------------------------------

#define WEFT_SREG(name, reg)                                        \
  __device__ __forceinline__ uint32_t name() {                      \
    uint32_t v;                                                     \
    asm("mov.u32 %0, %%" reg ";" : "=r"(v));                        \
    return v;                                                       \
  }
WEFT_SREG(thread_in_block, "tid.x")
WEFT_SREG(threads_per_block, "ntid.x")
WEFT_SREG(block_index, "ctaid.x")
WEFT_SREG(blocks_in_grid, "nctaid.x")
WEFT_SREG(lane_index, "laneid")
#undef WEFT_SREG

__device__ __forceinline__ uint64_t thread_index() {
  return uint64_t(block_index()) * threads_per_block() + thread_in_block();
}
__device__ __forceinline__ uint64_t threads_in_grid() {
  return uint64_t(blocks_in_grid()) * threads_per_block();
}

// ---- warps -----------------------------------------------------------------

__device__ __forceinline__ uint32_t ballot(uint32_t mask, bool p) {
  uint32_t r;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, %2; }"
               : "=r"(r) : "r"(uint32_t(p)), "r"(mask) : "memory");
  return r;
}
__device__ __forceinline__ uint32_t shuffle(uint32_t mask, uint32_t v, uint32_t lane) {
  uint32_t r;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, %3;" : "=r"(r) : "r"(v), "r"(lane), "r"(mask) : "memory");
  return r;
}
__device__ __forceinline__ uint64_t shuffle(uint32_t mask, uint64_t v, uint32_t lane) {
  uint32_t lo = shuffle(mask, uint32_t(v), lane);
  uint32_t hi = shuffle(mask, uint32_t(v >> 32), lane);
  return uint64_t(hi) << 32 | lo;
}
// shuffle_in is shuffle within groups of `Lanes` neighboring lanes; `Lanes` is a power of two. rank
// is the number of a lane in its group.
template <uint32_t Lanes>
__device__ __forceinline__ uint32_t shuffle_in(uint32_t mask, uint32_t v, uint32_t rank) {
  uint32_t r;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, %3, %4;"
               : "=r"(r) : "r"(v), "r"(rank), "n"((kWarp - Lanes) << 8 | 31), "r"(mask) : "memory");
  return r;
}
template <uint32_t Lanes>
__device__ __forceinline__ uint64_t shuffle_in(uint32_t mask, uint64_t v, uint32_t rank) {
  uint32_t lo = shuffle_in<Lanes>(mask, uint32_t(v), rank);
  uint32_t hi = shuffle_in<Lanes>(mask, uint32_t(v >> 32), rank);
  return uint64_t(hi) << 32 | lo;
}
__device__ __forceinline__ uint32_t shuffle_xor(uint32_t mask, uint32_t v, uint32_t x) {
  uint32_t r;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, %3;" : "=r"(r) : "r"(v), "r"(x), "r"(mask) : "memory");
  return r;
}
__device__ __forceinline__ uint64_t shuffle_xor(uint32_t mask, uint64_t v, uint32_t x) {
  uint32_t lo = shuffle_xor(mask, uint32_t(v), x);
  uint32_t hi = shuffle_xor(mask, uint32_t(v >> 32), x);
  return uint64_t(hi) << 32 | lo;
}

// match_any returns the mask of lanes that have the same v.
__device__ __forceinline__ uint32_t match_any(uint32_t mask, uint32_t v) {
  uint32_t r;
  asm volatile("match.any.sync.b32 %0, %1, %2;" : "=r"(r) : "r"(v), "r"(mask) : "memory");
  return r;
}

// sync_warp waits for all lanes of the warp. It orders each lane's earlier accesses before the
// later accesses of all other lanes. The functions above also wait, but order no accesses.
__device__ __forceinline__ void sync_warp() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

// pause waits for some nanoseconds, so that other threads run. Threads call it after they have
// found a lock taken.
__device__ __forceinline__ void pause(uint32_t ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns) : "memory"); }

__device__ __forceinline__ uint32_t popcount(uint32_t v) {
  uint32_t r;
  asm("popc.b32 %0, %1;" : "=r"(r) : "r"(v));
  return r;
}
// lowest returns the index of the lowest set bit; v must not be 0.
__device__ __forceinline__ uint32_t lowest(uint32_t v) {
  uint32_t r;
  asm("{ .reg .b32 t; brev.b32 t, %1; clz.b32 %0, t; }" : "=r"(r) : "r"(v));
  return r;
}

// highest returns the index of the highest set bit; v must not be 0.
__device__ __forceinline__ uint32_t highest(uint32_t v) {
  uint32_t r;
  asm("clz.b32 %0, %1;" : "=r"(r) : "r"(v));
  return 31 - r;
}

// select returns the index of set bit number n of v. It returns 32 if v has at most n set bits.
__device__ __forceinline__ uint32_t select(uint32_t v, uint32_t n) {
  uint32_t at = 0;
#pragma unroll
  for (uint32_t width = 16; width != 0; width /= 2) {
    uint32_t below = popcount(v >> at & ((1u << width) - 1));
    if (n >= below) n -= below, at += width;
  }
  return n == 0 && (v >> at & 1) ? at : 32;
}

// ---- blocks ----------------------------------------------------------------

// sync_block waits for all threads of the block, which must all call it. It orders each thread's
// earlier accesses before the later accesses of all other threads.
__device__ __forceinline__ void sync_block() { asm volatile("bar.sync 0;" ::: "memory"); }

// count_block returns the number of threads of the block that have p. It synchronizes as sync_block
// does.
__device__ __forceinline__ uint32_t count_block(bool p) {
  uint32_t n;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; bar.red.popc.u32 %0, 0, p; }"
               : "=r"(n) : "r"(uint32_t(p)) : "memory");
  return n;
}

}  // namespace weft
