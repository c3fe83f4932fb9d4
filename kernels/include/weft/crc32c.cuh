// CRC32C, the checksum with Castagnoli's polynomial, as Go's hash/crc32 computes it. A warp
// computes it by instructions alone, without a table in memory.
//
// A CRC is a remainder of polynomials over GF(2). Word i of a string of n bytes has 4 bytes and
// contributes word(i) * x^(8n - 32i). A lane has every 32nd word. For each of its words, it
// multiplies its sum so far by x^1024 and adds the word. At the end it multiplies the sum by the
// power of x for the words after its last word. The lowest bit of a polynomial is the coefficient
// of x^31.
#pragma once

#include "warp.cuh"

namespace weft {

constexpr uint32_t kCastagnoli = 0x82f63b78;

__device__ __forceinline__ constexpr uint32_t crc32c_times_x(uint32_t v) { return v >> 1 ^ (v & 1 ? kCastagnoli : 0); }
__device__ __forceinline__ constexpr uint32_t crc32c_over_x(uint32_t v) {
  return v >> 31 ? (v ^ kCastagnoli) << 1 | 1 : v << 1;
}

// crc32c_power returns x^n, at compile time.
__device__ constexpr uint32_t crc32c_power(uint32_t n) {
  uint32_t v = 1u << 31;
  for (; n > 0; n--) v = crc32c_times_x(v);
  return v;
}

// crc32c_tail_power returns x^(32 + 32i) for i in [First, First + Count). It selects one of 32
// constants by a tree of 31 choices.
template <uint32_t First = 0, uint32_t Count = kWarp>
__device__ __forceinline__ uint32_t crc32c_tail_power(uint32_t i) {
  if constexpr (Count == 1) {
    constexpr uint32_t power = crc32c_power(32 + 32 * First);
    return power;
  } else {
    uint32_t low = crc32c_tail_power<First, Count / 2>(i), high = crc32c_tail_power<First + Count / 2, Count / 2>(i);
    return i & Count / 2 ? high : low;
  }
}

// crc32c_fold returns v * x^Power, with 2 instructions per bit.
template <uint32_t Power, int Bit = 31>
__device__ __forceinline__ uint32_t crc32c_fold(uint32_t v) {
  constexpr uint32_t power = crc32c_power(Power + 31 - Bit);
  uint32_t product = v >> Bit & 1 ? power : 0;
  if constexpr (Bit > 0) product ^= crc32c_fold<Power, Bit - 1>(v);
  return product;
}

// crc32c_product returns the product of two polynomials modulo that of Castagnoli, with 5
// instructions per bit.
__device__ __forceinline__ uint32_t crc32c_product(uint32_t v, uint32_t by) {
  uint32_t product = 0;
#pragma unroll
  for (int bit = 31; bit >= 0; bit--) {
    product ^= v >> bit & 1 ? by : 0;
    by = crc32c_times_x(by);
  }
  return product;
}

// crc32c_warp computes the checksum of a string with all lanes of a warp together, and returns it
// to all lanes. word(i) returns word i: 4 bytes in little-endian order. The last word is padded
// with zeros. One lane reads each word, once.
//
// A lane executes some 64 instructions for each 128 bytes after the first, and 180 for the rest. A
// length that is not a multiple of 4 costs up to 100 more. These 100, and 40 of the 180, depend
// only on the length of the string.
template <class Word>
__device__ __forceinline__ uint32_t crc32c_warp(uint32_t bytes, Word word) {
  uint32_t lane = lane_index(), words = bytes == 0 ? 1 : (bytes + 3) / 4, sum = 0;
  // The initial value of the checksum covers the first four bytes. If the string is shorter, the
  // initial value extends past its end.
  if (lane == 0) sum = ~(bytes > 0 ? word(0) : 0);
  else if (lane < words) sum = word(lane);
  for (uint32_t i = lane + kWarp; i < words; i += kWarp) sum = crc32c_fold<32 * kWarp>(sum) ^ word(i);
  uint32_t behind = crc32c_tail_power((words - 1 - lane) % kWarp);
  for (uint32_t pad = 8 * (4 * words - bytes); pad > 0; pad--) behind = crc32c_over_x(behind);
  sum = crc32c_product(sum, behind);
#pragma unroll
  for (uint32_t x = 1; x < kWarp; x *= 2) sum ^= shuffle_xor(kAll, sum, x);
  return ~sum;
}

}  // namespace weft
