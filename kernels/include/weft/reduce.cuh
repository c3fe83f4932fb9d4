// Reductions: operations that combine values. For values without an atomic reduction, lanes of a
// warp with one key combine their values first (unite.cuh).
#pragma once

#include "order.cuh"

namespace weft {

// reduces reports whether operations of a kind combine values.
__device__ __forceinline__ bool reduces(uint32_t kind) { return kind - kSum <= uint32_t(kOr) - kSum; }

// kReduces reports whether a launch may combine values. V is the type of the batch's values, or
// void if the launch may not.
template <class S, class V>
constexpr bool kReduces = S::kHasValue;
template <class S>
constexpr bool kReduces<S, void> = false;

// inserts reports whether operations of a kind may need a slot.
template <class S, class V>
__device__ __forceinline__ bool inserts(uint32_t kind) {
  return kind == kPut || kind == kPutNew || (kReduces<S, V> && reduces(kind));
}

// known returns the kind of an operation if the table supports it. Otherwise it returns kNone, and
// the operation does nothing.
template <class S>
__device__ __forceinline__ uint32_t known(uint32_t kind, uint32_t flags) {
  if (kind < kSum) return kind;
  bool has = S::kHasValue && !(flags & kMulti) && kind <= ((flags & kFloat) ? kMax : kOr);
  return has ? kind : uint32_t(kNone);
}

// ---- values ------------------------------------------------------------------

// Real is the floating-point type of the same width as an unsigned integer type.
template <class U>
struct Real;
template <>
struct Real<uint32_t> {
  using Type = float;
  static constexpr uint32_t kInfinity = 0x7f800000;
};
template <>
struct Real<uint64_t> {
  using Type = double;
  static constexpr uint64_t kInfinity = 0x7ff0000000000000;
};

template <class To, class From>
__device__ __forceinline__ To bits_as(From from) {
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

// rank returns an unsigned number that is ordered as the value is. -0 comes before 0.
template <class U>
__device__ __forceinline__ U rank(uint32_t flags, U bits) {
  constexpr U sign = ~(~U(0) >> 1);
  if ((flags & kFloat) && (bits & sign)) return ~bits;
  return (flags & (kFloat | kSigned)) ? bits ^ sign : bits;
}

template <class U>
__device__ __forceinline__ bool is_nan(U bits) {
  return (bits & ~U(0) >> 1) > Real<U>::kInfinity;
}

// combine returns the reduction of two values. If both are NaNs, it returns the one with the larger
// bits, so the result does not depend on the order.
template <class U>
__device__ __forceinline__ U combine(uint32_t kind, uint32_t flags, U a, U b) {
  using F = typename Real<U>::Type;
  switch (kind) {
    case kSum:
      return (flags & kFloat) ? bits_as<U>(F(bits_as<F>(a) + bits_as<F>(b))) : U(a + b);
    case kAnd:
      return a & b;
    case kOr:
      return a | b;
  }
  if ((flags & kFloat) && (is_nan(a) || is_nan(b))) return is_nan(a) && (!is_nan(b) || a > b) ? a : b;
  U x = rank(flags, a), y = rank(flags, b);
  return (kind == kMin ? y < x : y > x) ? b : a;
}

// folds reports whether the device has an atomic operation that reduces such values.
__device__ __forceinline__ bool folds(uint32_t flags) { return !(flags & kFloat); }

// fold combines a value with the value at a place, if folds is true. Place is a pointer or a
// Shared.
template <class Place, class V>
__device__ __forceinline__ void fold(Place place, uint32_t kind, uint32_t flags, V value) {
  const bool is_signed = flags & kSigned;
  switch (kind) {
    case kSum: add_relaxed(place, value); return;
    case kAnd: and_relaxed(place, value); return;
    case kOr: or_relaxed(place, value); return;
    case kMin: is_signed ? min_signed_relaxed(place, value) : min_relaxed(place, value); return;
    case kMax: is_signed ? max_signed_relaxed(place, value) : max_relaxed(place, value); return;
  }
}

// neutral returns the value that changes no other value when both are combined. For sums of floats
// it is -0.
template <class U>
__device__ __forceinline__ U neutral(uint32_t kind, uint32_t flags) {
  constexpr U sign = ~(~U(0) >> 1), infinity = Real<U>::kInfinity;
  const bool is_float = flags & kFloat, is_signed = flags & kSigned;
  switch (kind) {
    case kSum: return is_float ? sign : 0;
    case kMin: return is_float ? infinity : is_signed ? ~sign : ~U(0);
    case kMax: return is_float ? infinity | sign : is_signed ? sign : 0;
    case kAnd: return ~U(0);
  }
  return 0;
}

}  // namespace weft
