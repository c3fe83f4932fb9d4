// Loads, stores, fences and atomics on global memory. Each name states the memory order and the
// scope of the access. Nothing is implicit.
//
//   weak      an ordinary access: only for memory that no other thread writes
//             during the launch (batch columns, tables in read-only launches)
//   relaxed   atomic, but orders no other access
//   release   a write that publishes what its thread has written or read before
//   acquire   a read after which the thread also reads what was published
//   acq_rel   an atomic that is both an acquire and a release
//
// A name without a suffix orders accesses between threads of the device (.gpu). With the suffix
// _system, it also orders them with the host and with other devices (.sys). Use the suffix for
// mapped host memory. Each name has overloads for words of 32 and of 64 bits.
#pragma once

#include "cuda.cuh"

namespace weft {

// Word128 is a word of 16 bytes in two halves; x is at the lower address.
struct alignas(16) Word128 {
  uint64_t x, y;
  __device__ __forceinline__ bool operator==(const Word128& o) const { return x == o.x && y == o.y; }
};

// ---- loads and stores -----------------------------------------------------

#define WEFT_LOAD(name, how)                                                                  \
  __device__ __forceinline__ uint32_t name(const uint32_t* p) {                               \
    uint32_t v;                                                                               \
    asm volatile("ld." how ".global.b32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");            \
    return v;                                                                                 \
  }                                                                                           \
  __device__ __forceinline__ uint64_t name(const uint64_t* p) {                               \
    uint64_t v;                                                                               \
    asm volatile("ld." how ".global.b64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");            \
    return v;                                                                                 \
  }
WEFT_LOAD(load_relaxed, "relaxed.gpu")
WEFT_LOAD(load_acquire, "acquire.gpu")
WEFT_LOAD(load_relaxed_system, "relaxed.sys")
WEFT_LOAD(load_acquire_system, "acquire.sys")
#undef WEFT_LOAD

#define WEFT_STORE(name, how)                                                                 \
  __device__ __forceinline__ void name(uint32_t* p, uint32_t v) {                             \
    asm volatile("st." how ".global.b32 [%0], %1;" ::"l"(p), "r"(v) : "memory");              \
  }                                                                                           \
  __device__ __forceinline__ void name(uint64_t* p, uint64_t v) {                             \
    asm volatile("st." how ".global.b64 [%0], %1;" ::"l"(p), "l"(v) : "memory");              \
  }
WEFT_STORE(store_relaxed, "relaxed.gpu")
WEFT_STORE(store_release, "release.gpu")
WEFT_STORE(store_relaxed_system, "relaxed.sys")
WEFT_STORE(store_release_system, "release.sys")
#undef WEFT_STORE

__device__ __forceinline__ uint8_t load_relaxed(const uint8_t* p) {
  uint32_t v;
  asm volatile("ld.relaxed.gpu.global.u8 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return uint8_t(v);
}
__device__ __forceinline__ void store_relaxed(uint8_t* p, uint8_t v) {
  asm volatile("st.relaxed.gpu.global.u8 [%0], %1;" ::"l"(p), "r"(uint32_t(v)) : "memory");
}

// load_relaxed of a Word128 is one atomic load of 16 bytes (PTX ISA: .b128, sm_70 and newer).
__device__ __forceinline__ Word128 load_relaxed(const Word128* p) {
  Word128 v;
  asm volatile("{ .reg .b128 t; ld.relaxed.gpu.global.b128 t, [%2]; mov.b128 {%0, %1}, t; }"
               : "=l"(v.x), "=l"(v.y) : "l"(p) : "memory");
  return v;
}

// store_relaxed of a Word128 is one atomic store of 16 bytes.
__device__ __forceinline__ void store_relaxed(Word128* p, Word128 v) {
  asm volatile("{ .reg .b128 t; mov.b128 t, {%1, %2}; st.relaxed.gpu.global.b128 [%0], t; }"
               :: "l"(p), "l"(v.x), "l"(v.y) : "memory");
}

// load_weak of a Word128 loads 16 bytes, but not atomically. Use it if no thread writes the bytes
// during the launch, or if each half of 8 bytes has a meaning on its own.
__device__ __forceinline__ Word128 load_weak(const Word128* p) {
  Word128 v;
  asm volatile("ld.global.v2.b64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(p) : "memory");
  return v;
}

// load_once and store_once access batch columns, which are read or written once. Such accesses pass
// through the caches without displacing the table.
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

// ---- fences ---------------------------------------------------------------

// A fence orders the accesses before it with the accesses after it, as all threads of the device
// observe them. In addition, all sc fences have a single order. Use fence_sc between a write and a
// read if another thread writes what this thread reads, and then reads what this thread writes.
__device__ __forceinline__ void fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ __forceinline__ void fence_sc() { asm volatile("fence.sc.gpu;" ::: "memory"); }
__device__ __forceinline__ void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
__device__ __forceinline__ void fence_sc_system() { asm volatile("fence.sc.sys;" ::: "memory"); }

// ---- atomics --------------------------------------------------------------

// Each atomic returns the old value. cas(p, want, to) stores `to` if the old value equals `want`.
// The others are `exchange`, `add`, `or` and `and`.
#define WEFT_CAS(name, how, type, bits, c)                                                    \
  __device__ __forceinline__ type name(type* p, type want, type to) {                         \
    type old;                                                                                 \
    asm volatile("atom." how ".global.cas.b" bits " %0, [%1], %2, %3;"                        \
                 : "=" c(old) : "l"(p), c(want), c(to) : "memory");                           \
    return old;                                                                               \
  }
#define WEFT_UPDATE(name, how, op, type, c)                                                   \
  __device__ __forceinline__ type name(type* p, type v) {                                     \
    type old;                                                                                 \
    asm volatile("atom." how ".global." op " %0, [%1], %2;" : "=" c(old) : "l"(p), c(v) : "memory"); \
    return old;                                                                               \
  }
#define WEFT_ATOMICS(order, how)                                                              \
  WEFT_CAS(cas_##order, how, uint32_t, "32", "r")                                             \
  WEFT_CAS(cas_##order, how, uint64_t, "64", "l")                                             \
  WEFT_UPDATE(exchange_##order, how, "exch.b32", uint32_t, "r")                               \
  WEFT_UPDATE(exchange_##order, how, "exch.b64", uint64_t, "l")                               \
  WEFT_UPDATE(add_##order, how, "add.u32", uint32_t, "r")                                     \
  WEFT_UPDATE(add_##order, how, "add.u64", uint64_t, "l")                                     \
  WEFT_UPDATE(or_##order, how, "or.b32", uint32_t, "r")                                       \
  WEFT_UPDATE(or_##order, how, "or.b64", uint64_t, "l")                                       \
  WEFT_UPDATE(and_##order, how, "and.b32", uint32_t, "r")                                     \
  WEFT_UPDATE(and_##order, how, "and.b64", uint64_t, "l")
WEFT_ATOMICS(relaxed, "relaxed.gpu")
WEFT_ATOMICS(acquire, "acquire.gpu")
WEFT_ATOMICS(release, "release.gpu")
WEFT_ATOMICS(acq_rel, "acq_rel.gpu")
WEFT_ATOMICS(relaxed_system, "relaxed.sys")
WEFT_ATOMICS(acquire_system, "acquire.sys")
WEFT_ATOMICS(release_system, "release.sys")
WEFT_ATOMICS(acq_rel_system, "acq_rel.sys")
#undef WEFT_ATOMICS
#undef WEFT_UPDATE
#undef WEFT_CAS

// These atomics return nothing. Those for signed integers have their own names.
#define WEFT_REDUCE(name, op, type, c)                                                        \
  __device__ __forceinline__ void name(type* p, type v) {                                     \
    asm volatile("red.relaxed.gpu.global." op " [%0], %1;" ::"l"(p), c(v) : "memory");        \
  }
WEFT_REDUCE(min_relaxed, "min.u32", uint32_t, "r")
WEFT_REDUCE(min_relaxed, "min.u64", uint64_t, "l")
WEFT_REDUCE(max_relaxed, "max.u32", uint32_t, "r")
WEFT_REDUCE(max_relaxed, "max.u64", uint64_t, "l")
WEFT_REDUCE(min_signed_relaxed, "min.s32", uint32_t, "r")
WEFT_REDUCE(min_signed_relaxed, "min.s64", uint64_t, "l")
WEFT_REDUCE(max_signed_relaxed, "max.s32", uint32_t, "r")
WEFT_REDUCE(max_signed_relaxed, "max.s64", uint64_t, "l")
#undef WEFT_REDUCE

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

// ---- hints to the L2 cache ------------------------------------------------

// CachePolicy is a hint for the L2 cache: how long it should keep the data of an access. A hint
// changes no value and no order. Each thread creates a policy once. Policies need PTX 7.4.
struct CachePolicy {
  uint64_t bits;
};

// evict_first returns the policy for data that is used once, such as streams. The cache evicts such
// data first.
__device__ __forceinline__ CachePolicy evict_first() {
  CachePolicy policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy.bits));
  return policy;
}
// evict_last returns the policy for data that is used repeatedly, such as the upper levels of a
// tree. The cache keeps such data longer than any other data, so the amount must be small.
__device__ __forceinline__ CachePolicy evict_last() {
  CachePolicy policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy.bits));
  return policy;
}

#define WEFT_HINTED(order, how, type, width, c)                                                \
  __device__ __forceinline__ type load_##order(const type* p, CachePolicy policy) {           \
    type v;                                                                                   \
    asm volatile("ld" how ".global.L2::cache_hint.b" width " %0, [%1], %2;"                    \
                 : "=" c(v) : "l"(p), "l"(policy.bits) : "memory");                           \
    return v;                                                                                 \
  }                                                                                           \
  __device__ __forceinline__ void store_##order(type* p, type v, CachePolicy policy) {        \
    asm volatile("st" how ".global.L2::cache_hint.b" width " [%0], %1, %2;"                    \
                 ::"l"(p), c(v), "l"(policy.bits) : "memory");                                \
  }
WEFT_HINTED(weak, "", uint32_t, "32", "r")
WEFT_HINTED(weak, "", uint64_t, "64", "l")
WEFT_HINTED(relaxed, ".relaxed.gpu", uint32_t, "32", "r")
WEFT_HINTED(relaxed, ".relaxed.gpu", uint64_t, "64", "l")
#undef WEFT_HINTED

__device__ __forceinline__ Word128 load_weak(const Word128* p, CachePolicy policy) {
  Word128 v;
  asm volatile("ld.global.L2::cache_hint.v2.b64 {%0, %1}, [%2], %3;"
               : "=l"(v.x), "=l"(v.y) : "l"(p), "l"(policy.bits) : "memory");
  return v;
}
__device__ __forceinline__ void store_weak(Word128* p, Word128 v, CachePolicy policy) {
  asm volatile("st.global.L2::cache_hint.v2.b64 [%0], {%1, %2}, %3;"
               ::"l"(p), "l"(v.x), "l"(v.y), "l"(policy.bits) : "memory");
}

}  // namespace weft
