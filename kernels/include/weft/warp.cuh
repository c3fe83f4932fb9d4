// Threads, warps and memory accesses: the vocabulary every kernel of weft is
// written in. Accesses say their memory order and scope by name; nothing here
// is implicit.
//
// Orders used:
//   weak      an ordinary access: only for memory no other thread writes
//             during the launch (batch columns, tables in read-only launches)
//   relaxed   atomic at .gpu scope, orders nothing else
//   release   a write that publishes what its thread wrote or saw before, to
//   acquire   a read that sees it
#pragma once

#include "cuda.cuh"

namespace weft {

constexpr uint32_t kWarp = 32;
constexpr uint32_t kAll = 0xffffffffu;

// ---- who am I -------------------------------------------------------------

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

// ---- a warp talks ---------------------------------------------------------

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
__device__ __forceinline__ uint32_t shuffle_xor(uint32_t mask, uint32_t v, uint32_t x) {
  uint32_t r;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, %3;" : "=r"(r) : "r"(v), "r"(x), "r"(mask) : "memory");
  return r;
}

// The lanes that have the same v.
__device__ __forceinline__ uint32_t match_any(uint32_t mask, uint32_t v) {
  uint32_t r;
  asm volatile("match.any.sync.b32 %0, %1, %2;" : "=r"(r) : "r"(v), "r"(mask) : "memory");
  return r;
}

// sync_warp waits for all lanes, and orders what each did before with what the
// others do after. The functions above wait, too, but order no memory.
__device__ __forceinline__ void sync_warp() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

// The number of threads of the block with p; all threads must call it.
__device__ __forceinline__ uint32_t count_block(bool p) {
  uint32_t n;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; bar.red.popc.u32 %0, 0, p; }"
               : "=r"(n) : "r"(uint32_t(p)) : "memory");
  return n;
}

__device__ __forceinline__ uint32_t popcount(uint32_t v) {
  uint32_t r;
  asm("popc.b32 %0, %1;" : "=r"(r) : "r"(v));
  return r;
}
// Index of the lowest set bit; v must not be 0.
__device__ __forceinline__ uint32_t lowest(uint32_t v) {
  uint32_t r;
  asm("{ .reg .b32 t; brev.b32 t, %1; clz.b32 %0, t; }" : "=r"(r) : "r"(v));
  return r;
}

// ---- loads and stores -----------------------------------------------------

// Batch columns are read or written once: they pass through the caches
// without displacing the table.
__device__ __forceinline__ uint8_t load_once(const uint8_t* p) {
  uint32_t v;
  asm("ld.global.cs.u8 %0, [%1];" : "=r"(v) : "l"(p));
  return uint8_t(v);
}
__device__ __forceinline__ uint32_t load_once(const uint32_t* p) {
  uint32_t v;
  asm("ld.global.cs.b32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ uint64_t load_once(const uint64_t* p) {
  uint64_t v;
  asm("ld.global.cs.b64 %0, [%1];" : "=l"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ void store_once(uint8_t* p, uint8_t v) {
  asm volatile("st.global.cs.u8 [%0], %1;" ::"l"(p), "r"(uint32_t(v)) : "memory");
}
__device__ __forceinline__ void store_once(uint32_t* p, uint32_t v) {
  asm volatile("st.global.cs.b32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void store_once(uint64_t* p, uint64_t v) {
  asm volatile("st.global.cs.b64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

__device__ __forceinline__ uint8_t load_relaxed(const uint8_t* p) {
  uint32_t v;
  asm volatile("ld.relaxed.gpu.global.u8 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return uint8_t(v);
}
__device__ __forceinline__ uint32_t load_relaxed(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ uint64_t load_relaxed(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_relaxed(uint8_t* p, uint8_t v) {
  asm volatile("st.relaxed.gpu.global.u8 [%0], %1;" ::"l"(p), "r"(uint32_t(v)) : "memory");
}

__device__ __forceinline__ void store_relaxed(uint32_t* p, uint32_t v) {
  asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void store_relaxed(uint64_t* p, uint64_t v) {
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

// fence orders what its thread did before with what it does after, both ways,
// for all threads of the device.
__device__ __forceinline__ void fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// ---- atomics --------------------------------------------------------------

__device__ __forceinline__ uint32_t cas_relaxed(uint32_t* p, uint32_t want, uint32_t to) {
  uint32_t old;
  asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;"
               : "=r"(old) : "l"(p), "r"(want), "r"(to) : "memory");
  return old;
}
__device__ __forceinline__ uint64_t cas_relaxed(uint64_t* p, uint64_t want, uint64_t to) {
  uint64_t old;
  asm volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(old) : "l"(p), "l"(want), "l"(to) : "memory");
  return old;
}
__device__ __forceinline__ uint32_t add_relaxed(uint32_t* p, uint32_t v) {
  uint32_t old;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
  return old;
}
__device__ __forceinline__ uint64_t add_relaxed(uint64_t* p, uint64_t v) {
  uint64_t old;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
  return old;
}
__device__ __forceinline__ uint32_t or_relaxed(uint32_t* p, uint32_t v) {
  uint32_t old;
  asm volatile("atom.relaxed.gpu.global.or.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
  return old;
}
__device__ __forceinline__ uint32_t and_relaxed(uint32_t* p, uint32_t v) {
  uint32_t old;
  asm volatile("atom.relaxed.gpu.global.and.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
  return old;
}
__device__ __forceinline__ void max_relaxed(uint32_t* p, uint32_t v) {
  asm volatile("red.relaxed.gpu.global.max.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void min_relaxed(uint32_t* p, uint32_t v) {
  asm volatile("red.relaxed.gpu.global.min.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// A 16-byte word in two halves; .x at the lower address.
struct alignas(16) Word128 {
  uint64_t x, y;
  __device__ __forceinline__ bool operator==(const Word128& o) const { return x == o.x && y == o.y; }
};

// One 16-byte load, atomic as a whole (PTX ISA: .b128, sm_70 and newer).
__device__ __forceinline__ Word128 load_relaxed(const Word128* p) {
  Word128 v;
  asm volatile("{ .reg .b128 t; ld.relaxed.gpu.global.b128 t, [%2]; mov.b128 {%0, %1}, t; }"
               : "=l"(v.x), "=l"(v.y) : "l"(p) : "memory");
  return v;
}

// One 16-byte store, atomic as a whole.
__device__ __forceinline__ void store_relaxed(Word128* p, Word128 v) {
  asm volatile("{ .reg .b128 t; mov.b128 t, {%1, %2}; st.relaxed.gpu.global.b128 [%0], t; }"
               :: "l"(p), "l"(v.x), "l"(v.y) : "memory");
}

// Sixteen bytes that no thread writes during the launch, or whose eight-byte
// halves are each meaningful on their own.
__device__ __forceinline__ Word128 load_weak(const Word128* p) {
  Word128 v;
  asm volatile("ld.global.v2.b64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(p) : "memory");
  return v;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ Word128 cas_relaxed(Word128* p, Word128 want, Word128 to) {
  Word128 old;
  asm volatile(
      "{ .reg .b128 w, t, o; mov.b128 w, {%3, %4}; mov.b128 t, {%5, %6};"
      " atom.relaxed.gpu.global.cas.b128 o, [%2], w, t; mov.b128 {%0, %1}, o; }"
      : "=l"(old.x), "=l"(old.y)
      : "l"(p), "l"(want.x), "l"(want.y), "l"(to.x), "l"(to.y)
      : "memory");
  return old;
}
#endif

__device__ __forceinline__ uint64_t load_acquire(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ uint64_t cas_release(uint64_t* p, uint64_t want, uint64_t to) {
  uint64_t old;
  asm volatile("atom.release.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(old) : "l"(p), "l"(want), "l"(to) : "memory");
  return old;
}

}  // namespace weft
