// Hash functions of keys. internal/hash has the same functions in Go, and a test compares both.
#pragma once

#include "cuda.cuh"

namespace weft {

// hash is Murmur3's finalizer, the hash of the article that package linear follows. Its constants
// mix better than those of Murmur3. An exhaustive search has found them. The seed selects one
// function of a family. Each function is a bijection.
__device__ __forceinline__ uint32_t hash(uint32_t x, uint64_t seed) {
  x ^= uint32_t(seed);
  x ^= x >> 16;
  x *= 0x21f0aaadu;
  x ^= x >> 15;
  x *= 0xd35a2d97u;
  x ^= x >> 15;
  return x;
}
__device__ __forceinline__ uint64_t hash(uint64_t x, uint64_t seed) {
  x ^= seed;
  x ^= x >> 32;
  x *= 0xe9846af9b1a615dul;
  x ^= x >> 32;
  x *= 0xe9846af9b1a615dul;
  x ^= x >> 28;
  return x;
}

// unmix is the inverse of hash.
__device__ __forceinline__ uint32_t unmix(uint32_t x, uint64_t seed) {
  x ^= x >> 15 ^ x >> 30;
  x *= 0x37132227u;
  x ^= x >> 15 ^ x >> 30;
  x *= 0x333c4925u;
  x ^= x >> 16;
  return x ^ uint32_t(seed);
}
__device__ __forceinline__ uint64_t unmix(uint64_t x, uint64_t seed) {
  x ^= x >> 28 ^ x >> 56;
  x *= 0x153ed04bd89cfaf5ul;
  x ^= x >> 32;
  x *= 0x153ed04bd89cfaf5ul;
  x ^= x >> 32;
  return x ^ seed;
}

// reduce maps a hash to [0,n): it returns the high half of a product, so n may be any number, and
// no modulo is needed. It uses mul.hi explicitly because the assembler of CUDA 13.0 miscompiles a
// 64-bit product. If h grows in a loop and wraps, the assembler computes the product as if h did
// not wrap.
__device__ __forceinline__ uint32_t reduce(uint32_t h, uint32_t n) {
  uint32_t hi;
  asm("mul.hi.u32 %0, %1, %2;" : "=r"(hi) : "r"(h), "r"(n));
  return hi;
}
__device__ __forceinline__ uint64_t reduce(uint64_t h, uint64_t n) {
  uint64_t hi;
  asm("mul.hi.u64 %0, %1, %2;" : "=l"(hi) : "l"(h), "l"(n));
  return hi;
}

}  // namespace weft
