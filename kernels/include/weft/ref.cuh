// The common part of the Refs of all structures: tables in users' kernels. linear.cuh and slab.cuh
// define one each.
#pragma once

#include "account.cuh"
#include "widths.cuh"

namespace weft {

// Mode is what a Ref permits, and the widths of its keys and values.
enum Mode : uint32_t {
  kMayInsert = 1,   // kernels may insert keys and combine values
  kMayReplace = 2,  // and put and erase
  kWideFind = 4,    // tiles read whole lines
  kWideChange = 8,
  kIsMulti = 16,    // a multimap
  kInCache = 32,    // the table lies in the L2 cache
};

// shape returns the part of a mode that depends on types.
__device__ constexpr uint32_t shape(uint32_t key_bytes, uint32_t value_bytes, bool multi) {
  return key_bytes << 8 | value_bytes << 16 | (multi ? uint32_t(kIsMulti) : 0);
}

// Terms are what a Ref has in addition to its table.
struct Terms {
  Account* account;
  uint32_t limit;  // insertions
  uint32_t mode;

  // check traps if a kernel takes a table for one of other widths, which would corrupt it.
  __device__ __forceinline__ void check(uint32_t expected) const {
    if ((mode & shape(0xff, 0xff, true)) != expected) asm volatile("trap;" ::: "memory");
  }
  // check_warp also traps if lanes that a call needs have returned: searches would miss them.
  __device__ __forceinline__ void check_warp(uint32_t expected) const {
    check(expected);
    if (ballot(kAll, true) != kAll) asm volatile("trap;" ::: "memory");
  }
  // permits reports whether operations of a kind are allowed. append marks a Put of a multimap,
  // which replaces nothing.
  __device__ __forceinline__ bool permits(uint32_t kind, bool append) const {
    bool replaces = (kind == kPut && !append) || kind == kDelete || kind == kDeleteAll;
    return mode & (replaces ? kMayReplace : kMayInsert);
  }
  // flags returns the flags of changes.
  __device__ __forceinline__ uint32_t flags() const { return mode & kMayReplace ? 0u : uint32_t(kSteady); }
  __device__ __forceinline__ Quota quota() const { return {account, limit}; }

  // settle counts the outcome of a change of this lane. A deletion removed `removed` pairs.
  __device__ __forceinline__ Outcome settle(Outcome outcome, uint32_t removed) const {
    if (outcome == kFull) add_relaxed(&account->lost, 1u);
    if (outcome == kDeleted && removed == 1) add_together(&account->deleted, 1);
    else if (outcome == kDeleted) add_relaxed(&account->deleted, uint64_t(removed));
    return outcome;
  }
};

// ---- users' types ------------------------------------------------------------

// NoValue is the value of a set.
struct NoValue {};

// As<T> converts a user's value to the form that a table holds: an unsigned integer with the same
// bits.
template <class T>
struct As {
  using Given = T;
  using Bits = typename Integer<sizeof(T) * 8>::Type;
  static constexpr uint32_t kBytes = sizeof(T);
  template <class Held>
  __device__ static T from(Held held) { return bits_as<T>(Bits(held)); }
  __device__ static Bits bits(T v) { return bits_as<Bits>(v); }
};
template <>
struct As<void> {
  using Given = NoValue;
  using Bits = void;
  static constexpr uint32_t kBytes = 0;
  template <class Held>
  __device__ static NoValue from(Held) { return {}; }
  __device__ static uint32_t bits(NoValue) { return 0; }
};

// kMeaning<T> is the flag for reductions of values of a type.
template <class T>
constexpr uint32_t kMeaning = 0;
template <>
constexpr uint32_t kMeaning<int> = kSigned;
template <>
constexpr uint32_t kMeaning<long> = kSigned;
template <>
constexpr uint32_t kMeaning<long long> = kSigned;
template <>
constexpr uint32_t kMeaning<float> = kFloat;
template <>
constexpr uint32_t kMeaning<double> = kFloat;

// Types are the types of a Ref: K and V are integers or floats of 32 or 64 bits, V is void in sets.
template <class K, class V, bool Multi>
struct Types {
  using Value = typename As<V>::Given;
  using Bits = typename As<V>::Bits;
  using S = typename Widths<As<K>::kBytes * 8, As<V>::kBytes * 8>::S;
  static constexpr uint32_t kShape = shape(As<K>::kBytes, As<V>::kBytes, Multi);

  __device__ static typename S::Key key(K key) { return typename S::Key(As<K>::bits(key)); }
  __device__ static Operation<S> operation(bool there, uint32_t kind, K k, Value v) {
    return {there, kind, key(k), typename S::Key(As<V>::bits(v))};
  }
  // give calls a user's f(key, value), or f(key) of a set, for a pair as a table holds it.
  template <class F>
  __device__ static __forceinline__ void give(F& f, typename S::Key k, typename S::Key v) {
    if constexpr (As<V>::kBytes == 0) f(As<K>::from(k));
    else f(As<K>::from(k), As<V>::from(v));
  }
};

}  // namespace weft
