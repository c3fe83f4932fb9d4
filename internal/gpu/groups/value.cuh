// Keys and values as words of 64 bits, and how they are added up.
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

__device__ __forceinline__ bool is_signed(Type type) { return type == kInt32 || type == kInt64; }

// load_word is a value: integers extended by their sign or by zeros, floats as double precision.
__device__ __forceinline__ uint64_t load_word(const void* column, Type type, uint64_t row) {
  if (type == kInt64 || type == kUint64 || type == kFloat64) return load_once(static_cast<const uint64_t*>(column) + row);
  const uint32_t v = load_once(static_cast<const uint32_t*>(column) + row);
  return type == kInt32 ? uint64_t(int64_t(int32_t(v))) : type == kUint32 ? uint64_t(v) : widened(v);
}

// load_key is a key as records have it. All NaN are one key, and -0 is 0.
__device__ __forceinline__ uint64_t load_key(const void* column, Type type, uint64_t row) {
  uint64_t key = load_word(column, type, row);
  if (type >= kFloat32) key = is_nan(key) ? kNaN : key == kSign ? 0 : key;
  return ~key;
}

// rank is a number that is as large among the unsigned ones as a value among its like; -0 is less than 0, and NaN
// more than all.
__device__ __forceinline__ uint64_t rank(Type type, uint64_t v) {
  if (type < kFloat32) return is_signed(type) ? v ^ kSign : v;
  return is_nan(v) ? ~0ul : v & kSign ? ~v : v ^ kSign;
}

// ranked is what a field of a minimum or a maximum keeps the largest of. NaN is both.
__device__ __forceinline__ uint64_t ranked(Op op, Type type, uint64_t v) {
  const uint64_t r = rank(type, v);
  const bool no_number = r == ~0ul && type >= kFloat32;
  return op == kMax || no_number ? r : ~r;
}

// Parts are an integer as low + high << 32: the sums of fewer than 2^32 of either do not go over 64 bits. High is 0 of
// all that 32 bits with a sign can hold.
struct Parts {
  uint64_t low, high;
};
__device__ __forceinline__ Parts parts(Type type, uint64_t v) {
  const uint64_t low = uint64_t(int64_t(int32_t(uint32_t(v))));
  return {low, (is_signed(type) ? uint64_t(int64_t(v) >> 32) : v >> 32) + (low >> 63)};
}

// Atomics of which nobody asks what was there before.
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
