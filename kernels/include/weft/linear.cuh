// A linear.Map or linear.Set in users' kernels. Package linear documents how to get a Ref in Go;
// docs/refs.md is a guide.
//
//	__global__ void count(Ref<uint64_t, uint32_t> seen, …) {
//	  if (seen.find(key, &n)) …
//
// A call without a suffix serves one lane and is valid anywhere: lanes may diverge, loop, and have
// returned. A call with _warp serves all 32 lanes of a warp together. Each lane brings one key or
// none, and the warp reads memory as weft's own batches do. No lane may have returned or be in
// another branch. If lanes have returned, the launch traps. If lanes are in another branch, the
// call waits for them. A kernel may mix both kinds of calls.
//
// Operations on a key are linearizable, from any lane and by either kind of call. A change returns
// its outcome: kInserted, kRevived (inserted into the slot that the key had before), kPresent,
// kReplaced, kDeleted, kNothing or kFull. kFull means that the table was full, that the Update
// permits no more insertions, or that the Ref comes from View. Then nothing has changed, and Sync
// returns ErrFull.
#pragma once

#include "linear_alone.cuh"
#include "linear_change.cuh"
#include "linear_find.cuh"
#include "ref.cuh"

namespace weft::linear {

// Ref is passed to kernels by value. K and V match the table's Go types: integers or floats of 32
// or 64 bits. For a set, V is void.
template <class K, class V = void>
struct Ref {
  using Value = typename Types<K, V, false>::Value;

  Table table;
  Terms terms;

  // ---- lookups ----

  // find reports whether a key is present. It stores the value in *value, if value is not null.
  __device__ __forceinline__ bool find(K key, Value* value = nullptr) const {
    terms.check(T::kShape);
    typename S::Key held;
    bool over = false, hit = find_by_lane<S>(table, T::key(key), held, over);
    if (hit && value) *value = As<V>::from(held);
    return hit;
  }
  __device__ __forceinline__ bool find_warp(bool there, K key, Value* value = nullptr) const {
    terms.check_warp(T::kShape);
    typename S::Key held = 0, rest;
    bool over = !there, hit = false;
    if (there && (terms.mode & kInCache)) hit = find_by_lane<S>(table, T::key(key), held, over, kFindAlone);
    const uint32_t home = locate<S>(table, T::key(key));
    const typename S::Key name = stored<S>(T::key(key));
    bool behind = terms.mode & kWideFind ? linear::find<S, kWideLanes, kWidePieces>(table, !over, home, name, rest)
                                         : linear::find<S, kNarrowLanes, kNarrowPieces>(table, !over, home, name, rest);
    if (behind) hit = true, held = rest;
    if (hit && value) *value = As<V>::from(held);
    return hit;
  }

  // for_each calls f(key, value), or f(key) for a set, for all pairs in one of `parts` parts of the
  // table. With thread_index() and threads_in_grid() as arguments, a launch visits the whole table.
  // A pair that is inserted or erased at the same time may be visited or missed. A key that is
  // erased and inserted again may be visited twice. Lanes diverge within f.
  template <class F>
  __device__ __forceinline__ void for_each(uint64_t part, uint64_t parts, F f) const {
    terms.check(T::kShape);
    for_each_alone<S>(table, part, parts, [&](typename S::Key key, typename S::Key value) { T::give(f, key, value); });
  }

  // ---- changes, only in Update ----

  // insert inserts an absent key. If the key is present, it stores the key's value in *held, if
  // held is not null.
  __device__ __forceinline__ Outcome insert(K key, Value value = {}, Value* held = nullptr) const {
    return change(kPutNew, key, value, held);
  }
  // put inserts a key or replaces its value.
  __device__ __forceinline__ Outcome put(K key, Value value) const { return change(kPut, key, value, nullptr); }
  // reduce inserts a key or combines its value with another value, by kSum, kMin, kMax, kAnd or
  // kOr.
  __device__ __forceinline__ Outcome reduce(Kind kind, K key, Value value) const {
    return change(kind, key, value, nullptr);
  }
  __device__ __forceinline__ Outcome erase(K key) const { return change(kDelete, key, {}, nullptr); }

  __device__ __forceinline__ Outcome insert_warp(bool there, K key, Value value = {}, Value* held = nullptr) const {
    return change_warp(there, kPutNew, key, value, held);
  }
  __device__ __forceinline__ Outcome put_warp(bool there, K key, Value value) const {
    return change_warp(there, kPut, key, value, nullptr);
  }
  __device__ __forceinline__ Outcome reduce_warp(bool there, Kind kind, K key, Value value) const {
    return change_warp(there, kind, key, value, nullptr);
  }
  __device__ __forceinline__ Outcome erase_warp(bool there, K key) const {
    return change_warp(there, kDelete, key, {}, nullptr);
  }

 private:
  using T = Types<K, V, false>;
  using S = typename T::S;

  __device__ __forceinline__ Outcome change(uint32_t kind, K key, Value value, Value* held) const {
    terms.check(T::kShape);
    Operation<S> op = T::operation(true, kind, key, value);
    if (terms.permits(kind, false))
      change_by_lane<S, typename T::Bits>(table, terms.flags() | kMeaning<V>, op, terms.quota());
    else
      op.outcome = kFull;
    if (held && op.outcome == kPresent) *held = As<V>::from(op.value);
    return terms.settle(op.outcome, 1);
  }
  __device__ __forceinline__ Outcome change_warp(bool there, uint32_t kind, K key, Value value, Value* held) const {
    using Bits = typename T::Bits;
    terms.check_warp(T::kShape);
    Operation<S> op = T::operation(there, kind, key, value);
    const uint32_t flags = terms.flags() | kMeaning<V>;
    if (!terms.permits(kind, false)) {
      if (there) op.outcome = kFull;
    } else if (terms.mode & kWideChange) {
      linear::change<S, kWideLanes, kWidePieces, Bits>(table, flags, op, terms.quota());
    } else {
      linear::change<S, kNarrowLanes, kNarrowPieces, Bits>(table, flags, op, terms.quota());
    }
    if (held && op.outcome == kPresent) *held = As<V>::from(op.value);
    return terms.settle(op.outcome, 1);
  }
};

}  // namespace weft::linear
