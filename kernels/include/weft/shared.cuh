// Access to the shared memory of a block by its own addresses of 32 bits. Such an access needs no
// test for the kind of memory. Only the block can access this memory, so atomics have block scope
// (.cta). sync_block orders weak accesses.
#pragma once

#include "access.cuh"
#include "cuda.cuh"

namespace weft {

// Shared<T> is the address of a T in shared memory, or of the first element of an array.
template <typename T>
struct Shared {
  uint32_t address;
  __device__ __forceinline__ Shared operator+(uint32_t i) const { return {address + i * uint32_t(sizeof(T))}; }
};

// shared returns the address of *p in shared memory. *p must be a __shared__ variable or a part of
// one.
template <typename T>
__device__ __forceinline__ Shared<T> shared(T* p) {
  uint32_t address;
  asm("{ .reg .b64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(address) : "l"(p));
  return {address};
}

#define WEFT_SHARED(type, b, u, s, c)                                                         \
  __device__ __forceinline__ type load_weak(Shared<type> p) {                                 \
    type v;                                                                                   \
    asm volatile("ld.shared." b " %0, [%1];" : "=" c(v) : "r"(p.address) : "memory");         \
    return v;                                                                                 \
  }                                                                                           \
  __device__ __forceinline__ void store_weak(Shared<type> p, type v) {                        \
    asm volatile("st.shared." b " [%0], %1;" ::"r"(p.address), c(v) : "memory");              \
  }                                                                                           \
  __device__ __forceinline__ type load_relaxed(Shared<type> p) {                              \
    type v;                                                                                   \
    asm volatile("ld.relaxed.cta.shared." b " %0, [%1];" : "=" c(v) : "r"(p.address) : "memory"); \
    return v;                                                                                 \
  }                                                                                           \
  __device__ __forceinline__ void store_relaxed(Shared<type> p, type v) {                     \
    asm volatile("st.relaxed.cta.shared." b " [%0], %1;" ::"r"(p.address), c(v) : "memory");  \
  }                                                                                           \
  __device__ __forceinline__ type cas_relaxed(Shared<type> p, type want, type to) {           \
    type old;                                                                                 \
    asm volatile("atom.relaxed.cta.shared.cas." b " %0, [%1], %2, %3;"                        \
                 : "=" c(old) : "r"(p.address), c(want), c(to) : "memory");                   \
    return old;                                                                               \
  }                                                                                           \
  WEFT_SHARED_UPDATE(exchange_relaxed, "exch." b, type, c)                                    \
  WEFT_SHARED_UPDATE(add_relaxed, "add." u, type, c)                                          \
  WEFT_SHARED_UPDATE(or_relaxed, "or." b, type, c)                                            \
  WEFT_SHARED_UPDATE(and_relaxed, "and." b, type, c)                                          \
  WEFT_SHARED_UPDATE(min_relaxed, "min." u, type, c)                                          \
  WEFT_SHARED_UPDATE(max_relaxed, "max." u, type, c)                                          \
  WEFT_SHARED_UPDATE(min_signed_relaxed, "min." s, type, c)                                   \
  WEFT_SHARED_UPDATE(max_signed_relaxed, "max." s, type, c)
#define WEFT_SHARED_UPDATE(name, op, type, c)                                                 \
  __device__ __forceinline__ type name(Shared<type> p, type v) {                              \
    type old;                                                                                 \
    asm volatile("atom.relaxed.cta.shared." op " %0, [%1], %2;"                               \
                 : "=" c(old) : "r"(p.address), c(v) : "memory");                             \
    return old;                                                                               \
  }
WEFT_SHARED(uint32_t, "b32", "u32", "s32", "r")
WEFT_SHARED(uint64_t, "b64", "u64", "s64", "l")
#undef WEFT_SHARED_UPDATE
#undef WEFT_SHARED

__device__ __forceinline__ Word128 load_weak(Shared<Word128> p) {
  Word128 v;
  asm volatile("ld.shared.v2.b64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "r"(p.address) : "memory");
  return v;
}
__device__ __forceinline__ void store_weak(Shared<Word128> p, Word128 v) {
  asm volatile("st.shared.v2.b64 [%0], {%1, %2};" ::"r"(p.address), "l"(v.x), "l"(v.y) : "memory");
}

}  // namespace weft
