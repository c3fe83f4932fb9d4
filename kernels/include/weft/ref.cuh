// The common part of Refs, by which users' kernels access structures. linear.cuh, slab.cuh,
// btree.cuh, ordered.cuh, graph.cuh and slab_graph.cuh define Refs.
#pragma once

#include "account.cuh"
#include "widths.cuh"

namespace weft {

// Mode holds what a Ref permits, how tiles access its table, and the widths of keys and values.
enum Mode : uint32_t {
  kMayInsert = 1,   // kernels may insert keys and combine values
  kMayReplace = 2,  // kernels may also put and erase
  kWideFind = 4,    // tiles read whole lines in lookups
  kWideChange = 8,
  kIsMulti = 16,    // a multimap
  kInCache = 32,    // the table lies in the L2 cache
};

// shape returns the bits of Mode that the types of a Ref determine: the sizes of keys and values,
// and kIsMulti.
__device__ constexpr uint32_t shape(uint32_t key_bytes, uint32_t value_bytes, bool multi) {
  return key_bytes << 8 | value_bytes << 16 | (multi ? uint32_t(kIsMulti) : 0);
}

// Terms is the part of a Ref that is not its table.
struct Terms {
  Account* account;
  uint32_t limit;  // maximum number of insertions
  uint32_t mode;

  // check traps if a kernel expects other widths than its table has, because it would corrupt the
  // table.
  __device__ __forceinline__ void check(uint32_t expected) const {
    if ((mode & shape(0xff, 0xff, true)) != expected) asm volatile("trap;" ::: "memory");
  }
  // check_warp also traps if lanes have returned, because searches need all lanes.
  __device__ __forceinline__ void check_warp(uint32_t expected) const {
    check(expected);
    if (ballot(kAll, true) != kAll) asm volatile("trap;" ::: "memory");
  }
  // permits reports whether operations of a kind are allowed. append is true for a Put of a
  // multimap, which replaces nothing.
  __device__ __forceinline__ bool permits(uint32_t kind, bool append) const {
    bool replaces = (kind == kPut && !append) || kind == kDelete || kind == kDeleteAll;
    return mode & (replaces ? kMayReplace : kMayInsert);
  }
  // flags returns the Flags of changes.
  __device__ __forceinline__ uint32_t flags() const { return mode & kMayReplace ? 0u : uint32_t(kKeysFixed); }
  __device__ __forceinline__ Quota quota() const { return {account, limit}; }

  // settle counts the outcome of a change of this lane and returns it. `removed` is the number of
  // pairs that a deletion removed.
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

// As<T> converts a user's value to an unsigned integer with the same bits. Tables store this form.
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

// kMeaning<T> is the flag that reductions need for values of type T.
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

// Types defines the types of a Ref. K and V are integers or floats of 32 or 64 bits, and V is void
// for a set.
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
  // give calls a user's f(key, value), or f(key) for a set, with a pair of a table.
  template <class F>
  __device__ static __forceinline__ void give(F& f, typename S::Key k, typename S::Key v) {
    if constexpr (As<V>::kBytes == 0) f(As<K>::from(k));
    else f(As<K>::from(k), As<V>::from(v));
  }
};

}  // namespace weft
