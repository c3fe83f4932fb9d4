// Conversion of keys and values to 64-bit words, and sums of these words.
#pragma once

#include "layout.cuh"

namespace weft::groups {

constexpr uint64_t kSign = 1ul << 63, kInfinity = 0x7ff0000000000000ul, kNaN = 0x7ff8000000000000ul;
constexpr uint32_t kNaN32 = 0x7fc00000;

__device__ __forceinline__ uint64_t double_bits(double v) {
  uint64_t bits;
  __builtin_memcpy(&bits, &v, 8);
  return bits;
}
__device__ __forceinline__ double as_double(uint64_t bits) {
  double v;
  __builtin_memcpy(&v, &bits, 8);
  return v;
}
__device__ __forceinline__ uint64_t widened(uint32_t bits) {
  float v;
  __builtin_memcpy(&v, &bits, 4);
  return double_bits(double(v));
}
__device__ __forceinline__ bool is_nan(uint64_t bits) { return (bits & ~kSign) > kInfinity; }

__device__ __forceinline__ bool is_float(Type type) { return type >= kFloat32; }
__device__ __forceinline__ bool is_signed(Type type) { return type <= kInt64 && type % 2 == 0; }
__device__ __forceinline__ bool is_wide(Type type) { return type == kInt64 || type == kUint64 || type == kFloat64; }

__device__ __forceinline__ uint32_t load_once16(const void* column, uint64_t row) {
  uint16_t v;
  asm("ld.global.cs.u16 %0, [%1];" : "=h"(v) : "l"(static_cast<const uint16_t*>(column) + row));
  return v;
}

// load_bits returns the bits of a value, extended by zeros.
__device__ __forceinline__ uint64_t load_bits(const void* column, Type type, uint64_t row) {
  if (is_wide(type)) return load_once(static_cast<const uint64_t*>(column) + row);
  if (type == kInt32 || type == kUint32 || type == kFloat32) return load_once(static_cast<const uint32_t*>(column) + row);
  if (type == kInt16 || type == kUint16) return load_once16(column, row);
  const uint8_t v = load_once(static_cast<const uint8_t*>(column) + row);
  return type == kBool ? v != 0 : v;
}

// extended converts the bits of a value to a 64-bit word. It extends integers by their sign or by
// zeros, and converts floats to double precision.
__device__ __forceinline__ uint64_t extended(Type type, uint64_t bits) {
  switch (type) {
    case kInt8: return uint64_t(int64_t(bits << 56) >> 56);
    case kInt16: return uint64_t(int64_t(bits << 48) >> 48);
    case kInt32: return uint64_t(int64_t(int32_t(bits)));
    case kFloat32: return widened(uint32_t(bits));
    default: return bits;
  }
}

// load_word returns a value in the form that extended returns. If kNarrow is false, load_word
// supports only types of 32 and 64 bits. Kernels for the most frequent columns set it to false.
template <bool kNarrow = true>
__device__ __forceinline__ uint64_t load_word(const void* column, Type type, uint64_t row) {
  if (kNarrow) return extended(type, load_bits(column, type, row));
  if (is_wide(type)) return load_once(static_cast<const uint64_t*>(column) + row);
  const uint32_t v = load_once(static_cast<const uint32_t*>(column) + row);
  return type == kInt32 ? uint64_t(int64_t(int32_t(v))) : type == kUint32 ? uint64_t(v) : widened(v);
}

// key_bits returns the bits of a key. All NaNs are one key, and -0 equals 0.
template <bool kNarrow = true>
__device__ __forceinline__ uint64_t key_bits(const void* column, Type type, uint64_t row) {
  uint64_t bits;
  if (kNarrow) {
    bits = load_bits(column, type, row);
  } else if (is_wide(type)) {
    bits = load_once(static_cast<const uint64_t*>(column) + row);
  } else {
    bits = load_once(static_cast<const uint32_t*>(column) + row);
  }
  if (!is_float(type)) return bits;
  if (type == kFloat32) {
    const uint32_t v = uint32_t(bits) & 0x7fffffffu;
    return v > 0x7f800000u ? kNaN32 : v == 0 ? 0 : bits;
  }
  return is_nan(bits) ? kNaN : bits == kSign ? 0 : bits;
}

__device__ __forceinline__ bool is_null(const Column& c, uint64_t row) {
  if (c.valid == nullptr) return false;
  const uint64_t bit = c.offset + row;
  return (c.valid[bit / 8] >> bit % 8 & 1) == 0;
}

// any_null reports whether any key of a row is null.
__device__ __forceinline__ bool any_null(const Key* keys, uint32_t n, uint64_t row) {
  for (uint32_t i = 0; i < n; i++) {
    if (is_null(keys[i].column, row)) return true;
  }
  return false;
}

// matches_filter reports whether a filter accepts a row.
__device__ __forceinline__ bool matches_filter(Filter filter, const Key* keys, uint32_t n, uint64_t row) {
  return filter == kAllRows || any_null(keys, n, row) == (filter == kWithNulls);
}

// key_word packs the keys of a row into words, and returns word w.
__device__ __forceinline__ uint64_t key_word(const Key* keys, uint32_t n, uint32_t w, uint64_t row) {
  uint64_t v = 0;
  for (uint32_t i = 0; i < n; i++) {
    const Key& k = keys[i];
    if (is_null(k.column, row)) {
      if (k.null_word == w) v |= 1ul << k.null_shift;
    } else if (k.word == w) {
      v |= key_bits(k.column.values, k.type, row) << k.shift;
    }
  }
  return v;
}

// rank returns an unsigned number that sorts like the value. -0 sorts before 0, and NaN sorts last.
__device__ __forceinline__ uint64_t rank(Type type, uint64_t v) {
  if (!is_float(type)) return is_signed(type) ? v ^ kSign : v;
  return is_nan(v) ? ~0ul : v & kSign ? ~v : v ^ kSign;
}

// ranked returns an unsigned number for a value of a minimum or maximum field. Both kinds of field
// keep the largest of these numbers. A NaN has the largest number in both.
__device__ __forceinline__ uint64_t ranked(Op op, Type type, uint64_t v) {
  const uint64_t r = rank(type, v);
  const bool no_number = r == ~0ul && is_float(type);
  return op == kMax || no_number ? r : ~r;
}

// Parts is an integer, as low + (high << 32). A sum of fewer than 2^32 low parts does not overflow
// 64 bits, and neither does such a sum of high parts. high is 0 for all numbers that 32 bits with a
// sign can hold.
struct Parts {
  uint64_t low, high;
};
__device__ __forceinline__ Parts parts(Type type, uint64_t v) {
  const uint64_t low = uint64_t(int64_t(int32_t(uint32_t(v))));
  return {low, (is_signed(type) ? uint64_t(int64_t(v) >> 32) : v >> 32) + (low >> 63)};
}

// Atomics that return no result.
__device__ __forceinline__ void sum_relaxed(uint64_t* p, uint64_t v) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
__device__ __forceinline__ void sum_float_relaxed(uint64_t* p, double v) {
  asm volatile("red.relaxed.gpu.global.add.f64 [%0], %1;" ::"l"(p), "d"(v) : "memory");
}
__device__ __forceinline__ void sum_float_relaxed(Shared<uint64_t> p, double v) {
  asm volatile("red.relaxed.cta.shared.add.f64 [%0], %1;" ::"r"(p.address), "d"(v) : "memory");
}

}  // namespace weft::groups
