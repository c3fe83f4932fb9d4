// The hash of keys. internal/hash has the same functions in Go; a test compares them.
#pragma once

#include "cuda.cuh"

namespace weft {

// Murmur3's finalizer (the article's hash) with the better-mixing constants
// found by exhaustive search, keyed by a seed. A bijection for every seed.
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

// reduce maps a hash to [0,n) by the high half of a product: any n, no modulo. It uses mul.hi
// explicitly. For an h that grows in a loop and wraps, the assembler of CUDA 13.0 computes a
// product of 64 bits as if h did not wrap.
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
