// What the Refs of all structures have in common: tables in the hands of kernels of
// users. linear.cuh and slab.cuh have one each.
#pragma once

#include "account.cuh"
#include "widths.cuh"

namespace weft {

// Mode is what a Ref is for, and of which widths its keys and values are.
enum Mode : uint32_t {
  kMayInsert = 1,   // kernels may insert keys and combine values
  kMayReplace = 2,  // and put and erase
  kWideFind = 4,    // tiles read whole lines
  kWideChange = 8,
  kIsMulti = 16,    // a multimap
  kInCache = 32,    // the table lies in the L2 cache
};

// shape is the rest of a mode.
__device__ constexpr uint32_t shape(uint32_t key_bytes, uint32_t value_bytes, bool multi) {
  return key_bytes << 8 | value_bytes << 16 | (multi ? uint32_t(kIsMulti) : 0);
}

// Terms are what a Ref has beside its table.
struct Terms {
  Account* account;
  uint32_t limit;  // insertions
  uint32_t mode;

  // check stops the launch if a kernel takes a table for one of other widths, which
  // would be the end of it.
  __device__ __forceinline__ void check(uint32_t expected) const {
    if ((mode & shape(0xff, 0xff, true)) != expected) asm volatile("trap;" ::: "memory");
  }
  // check_warp does, too, where lanes that a call is for have returned: they would be
  // missed where keys are searched for.
  __device__ __forceinline__ void check_warp(uint32_t expected) const {
    check(expected);
    if (ballot(kAll, true) != kAll) asm volatile("trap;" ::: "memory");
  }
  // permits tells whether operations of a kind may be done. append is a Put of a
  // multimap, which replaces nothing.
  __device__ __forceinline__ bool permits(uint32_t kind, bool append) const {
    bool replaces = (kind == kPut && !append) || kind == kDelete || kind == kDeleteAll;
    return mode & (replaces ? kMayReplace : kMayInsert);
  }
  // flags are those of changes.
  __device__ __forceinline__ uint32_t flags() const { return mode & kMayReplace ? 0u : uint32_t(kSteady); }
  __device__ __forceinline__ Quota quota() const { return {account, limit}; }

  // settle counts what has become of a change of this lane, which removed so many
  // pairs if it is a deletion.
  __device__ __forceinline__ Outcome settle(Outcome outcome, uint32_t removed) const {
    if (outcome == kFull) add_relaxed(&account->lost, 1u);
    if (outcome == kDeleted && removed == 1) add_together(&account->deleted, 1);
    else if (outcome == kDeleted) add_relaxed(&account->deleted, uint64_t(removed));
    return outcome;
  }
};

// ---- types of users ----------------------------------------------------------

// NoValue is the value of a set.
struct NoValue {};

// As<T> is a value of a user as a table holds it: an unsigned integer of the same bits.
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

// kMeaning<T> is what values of a type are to reductions.
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

// Types are those of a Ref: K and V are integers or floats of 32 or 64 bits, V is
// void in sets.
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
  // give calls f(key, value) of a user, f(key) of a set, for a pair as a table holds it.
  template <class F>
  __device__ static __forceinline__ void give(F& f, typename S::Key k, typename S::Key v) {
    if constexpr (As<V>::kBytes == 0) f(As<K>::from(k));
    else f(As<K>::from(k), As<V>::from(v));
  }
};

}  // namespace weft
