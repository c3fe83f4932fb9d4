// Hashes of byte strings, the same as in gphash/hash.go. A string has `bytes` bytes, and word(i)
// returns its word number i: 8 bytes in little-endian order. The last word is padded with zeros.
// Each word is read once.
#pragma once

#include "hash.cuh"

namespace weft {

__device__ __forceinline__ uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

__device__ __forceinline__ void sip_round(uint64_t& v0, uint64_t& v1, uint64_t& v2, uint64_t& v3) {
  v0 += v1, v1 = rotate(v1, 13) ^ v0, v0 = rotate(v0, 32);
  v2 += v3, v3 = rotate(v3, 16) ^ v2;
  v0 += v3, v3 = rotate(v3, 21) ^ v0;
  v2 += v1, v1 = rotate(v1, 17) ^ v2, v2 = rotate(v2, 32);
}

// sip13 is SipHash-1-3 (Aumasson and Bernstein, 2012) with the key k0, k1. Finding strings that
// collide requires the key.
template <class Word>
__device__ __forceinline__ uint64_t sip13(uint64_t k0, uint64_t k1, uint32_t bytes, Word word) {
  uint64_t v0 = k0 ^ 0x736f6d6570736575, v1 = k1 ^ 0x646f72616e646f6d;
  uint64_t v2 = k0 ^ 0x6c7967656e657261, v3 = k1 ^ 0x7465646279746573;
  for (uint32_t i = 0; i <= bytes / 8; i++) {
    uint64_t m = i * 8 < bytes ? word(i) : 0;
    if (i == bytes / 8) m |= uint64_t(bytes) << 56;
    v3 ^= m;
    sip_round(v0, v1, v2, v3);
    v0 ^= m;
  }
  v2 ^= 0xff;
#pragma unroll
  for (int i = 0; i < 3; i++) sip_round(v0, v1, v2, v3);
  return v0 ^ v1 ^ v2 ^ v3;
}

// fast_hash computes one multiplicative hash per word. Use it if no attacker chooses the strings.
template <class Word>
__device__ __forceinline__ uint64_t fast_hash(uint64_t seed0, uint64_t seed1, uint32_t bytes, Word word) {
  uint64_t h = seed0 ^ bytes;
  for (uint32_t i = 0; i * 8 < bytes; i++) h = hash(h ^ word(i), seed1);
  return h;
}

}  // namespace weft
