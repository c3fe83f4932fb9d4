// A slab.Map, slab.Set or slab.MultiMap in users' kernels. Package slab documents how to get a Ref
// in Go; docs/refs.md is a guide.
//
// A call without a suffix serves one lane and is valid anywhere: lanes may diverge, loop, and have
// returned. A call with _warp serves all 32 lanes of a warp together. Each lane brings one key or
// none, and the warp reads memory as weft's own batches do. No lane may have returned or be in
// another branch. If lanes have returned, the launch traps. If lanes are in another branch, the
// call waits for them. A kernel may mix both kinds of calls.
//
// A change returns its outcome: kInserted, kRevived (inserted into the slot that the key had
// before), kPresent, kReplaced, kDeleted, kNothing or kFull. kFull means that the table was full,
// that the Update permits no more insertions, or that the Ref comes from View. Then nothing has
// changed, and Sync returns ErrFull.
#pragma once

#include "ref.cuh"
#include "slab_alone.cuh"
#include "slab_change.cuh"
#include "slab_find.cuh"

namespace weft::slab {

// Access implements the calls of Refs.
template <class K, class V, bool Multi>
struct Access {
  using T = Types<K, V, Multi>;
  using S = typename T::S;
  using Value = typename T::Value;
  const Table& table;
  const Terms& terms;

  __device__ __forceinline__ bool find(K key, Value* value) const {
    terms.check(T::kShape);
    typename S::Key held;
    bool hit = find_by_lane<S>(table, T::key(key), held);
    if (hit && value) *value = As<V>::from(held);
    return hit;
  }
  __device__ __forceinline__ bool find_warp(bool there, K key, Value* value) const {
    terms.check_warp(T::kShape);
    typename S::Key held;
    bool hit = slab::find<S, Multi>(table, there, T::key(key), held);
    if (hit && value) *value = As<V>::from(held);
    return hit;
  }
  // change runs an operation of this lane. It stores the number of pairs that a deletion has
  // removed in *removed, if removed is not null.
  __device__ __forceinline__ Outcome change(uint32_t kind, K key, Value value, Value* held, uint32_t* removed = nullptr) const {
    terms.check(T::kShape);
    Operation<S> op = T::operation(true, kind, key, value);
    op.outcome = kFull;
    uint32_t n = 0;
    if (terms.permits(kind, Multi))
      n = change_by_lane<S, Multi, typename T::Bits>(table, terms.flags() | kMeaning<V>, op, terms.quota());
    if (held && op.outcome == kPresent) *held = As<V>::from(op.value);
    if (removed) *removed = n;
    return terms.settle(op.outcome, n);
  }
  __device__ __forceinline__ Outcome change_warp(bool there, uint32_t kind, K key, Value value, Value* held, uint32_t* removed = nullptr) const {
    terms.check_warp(T::kShape);
    Operation<S> op = T::operation(there, kind, key, value);
    uint32_t n = 0;
    if (terms.permits(kind, Multi))
      slab::change<S, Multi, typename T::Bits>(table, terms.flags() | kMeaning<V>, op, nullptr, &n, terms.quota());
    else if (there)
      op.outcome = kFull;
    if (held && op.outcome == kPresent) *held = As<V>::from(op.value);
    if (op.outcome == kDeleted && kind == kDelete) n = 1;
    if (removed) *removed = n;
    return terms.settle(op.outcome, n);
  }
};

// Ref refers to a map or, if V is void, to a set. It is passed to kernels by value. K and V match
// the table's Go types: integers or floats of 32 or 64 bits.
template <class K, class V = void>
struct Ref {
  using Value = typename As<V>::Given;

  Table table;
  Terms terms;

  // ---- lookups ----

  // find reports whether a key is present. It stores the value in *value, if value is not null.
  __device__ __forceinline__ bool find(K key, Value* value = nullptr) const { return access().find(key, value); }
  __device__ __forceinline__ bool find_warp(bool there, K key, Value* value = nullptr) const {
    return access().find_warp(there, key, value);
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
    return access().change(kPutNew, key, value, held);
  }
  // put inserts a key or replaces its value.
  __device__ __forceinline__ Outcome put(K key, Value value) const { return access().change(kPut, key, value, nullptr); }
  // reduce inserts a key or combines its value with another value, by kSum, kMin, kMax, kAnd or
  // kOr.
  __device__ __forceinline__ Outcome reduce(Kind kind, K key, Value value) const {
    return access().change(kind, key, value, nullptr);
  }
  __device__ __forceinline__ Outcome erase(K key) const { return access().change(kDelete, key, {}, nullptr); }

  __device__ __forceinline__ Outcome insert_warp(bool there, K key, Value value = {}, Value* held = nullptr) const {
    return access().change_warp(there, kPutNew, key, value, held);
  }
  __device__ __forceinline__ Outcome put_warp(bool there, K key, Value value) const {
    return access().change_warp(there, kPut, key, value, nullptr);
  }
  __device__ __forceinline__ Outcome reduce_warp(bool there, Kind kind, K key, Value value) const {
    return access().change_warp(there, kind, key, value, nullptr);
  }
  __device__ __forceinline__ Outcome erase_warp(bool there, K key) const {
    return access().change_warp(there, kDelete, key, {}, nullptr);
  }

 private:
  using T = Types<K, V, false>;
  using S = typename T::S;
  __device__ __forceinline__ Access<K, V, false> access() const { return {table, terms}; }
};

// MultiRef refers to a multimap.
template <class K, class V>
struct MultiRef {
  Table table;
  Terms terms;

  // ---- lookups ----

  // find reports whether a key is present. It stores the value of the key's oldest pair in *value,
  // if value is not null.
  __device__ __forceinline__ bool find(K key, V* value = nullptr) const { return access().find(key, value); }
  __device__ __forceinline__ bool find_warp(bool there, K key, V* value = nullptr) const {
    return access().find_warp(there, key, value);
  }

  // for_each calls f(value) for all pairs of a key, in the order of the pairs.
  template <class F>
  __device__ __forceinline__ void for_each(K key, F f) const {
    terms.check(T::kShape);
    for_each_alone<S>(table, T::key(key), [&](typename S::Key held) {
      f(As<V>::from(held));
      return true;
    });
  }
  // for_each_warp calls f(from, value) for all pairs of the keys that the lanes bring. `from` is
  // the lane with the key, and any lane may make the call. Lanes diverge within f.
  template <class F>
  __device__ __forceinline__ void for_each_warp(bool there, K key, F f) const {
    terms.check_warp(T::kShape);
    search_all<S>(
        table, there, T::key(key),
        [&](const SlabTile<S>& tile, typename S::Key k, uint32_t from, uint32_t, bool busy) {
          uint32_t matches = 0;
          tile.each([&](int v, int j, typename S::Word w) {
            if (busy && S::key(w) == k) matches |= 1u << (v * tile.kSlots + j);
          });
#pragma unroll 1
          for (; matches != 0; matches &= matches - 1) f(from, As<V>::from(S::value(tile.word(lowest(matches)))));
          return 0u;
        },
        [](uint32_t) {});
  }

  // for_each calls f(key, value) for all pairs in one of `parts` parts of the table. With
  // thread_index() and threads_in_grid() as arguments, a launch visits the whole table. A pair that
  // is inserted or erased at the same time may be visited or missed. A key that is erased and
  // inserted again may be visited twice. Lanes diverge within f.
  template <class F>
  __device__ __forceinline__ void for_each(uint64_t part, uint64_t parts, F f) const {
    terms.check(T::kShape);
    for_each_alone<S>(table, part, parts, [&](typename S::Key key, typename S::Key value) { T::give(f, key, value); });
  }

  // ---- changes, only in Update ----

  // add adds a pair.
  __device__ __forceinline__ Outcome add(K key, V value) const { return access().change(kPut, key, value, nullptr); }
  // insert adds a pair if its key has no pair. Otherwise it stores the value of the key's oldest
  // pair in *held, if held is not null.
  __device__ __forceinline__ Outcome insert(K key, V value, V* held = nullptr) const {
    return access().change(kPutNew, key, value, held);
  }
  // erase removes the oldest pair of a key.
  __device__ __forceinline__ Outcome erase(K key) const { return access().change(kDelete, key, {}, nullptr); }
  // erase_all removes all pairs of a key. It stores their number in *removed, if removed is not
  // null.
  __device__ __forceinline__ Outcome erase_all(K key, uint32_t* removed = nullptr) const {
    return access().change(kDeleteAll, key, {}, nullptr, removed);
  }

  __device__ __forceinline__ Outcome add_warp(bool there, K key, V value) const {
    return access().change_warp(there, kPut, key, value, nullptr);
  }
  __device__ __forceinline__ Outcome insert_warp(bool there, K key, V value, V* held = nullptr) const {
    return access().change_warp(there, kPutNew, key, value, held);
  }
  __device__ __forceinline__ Outcome erase_warp(bool there, K key) const {
    return access().change_warp(there, kDelete, key, {}, nullptr);
  }
  __device__ __forceinline__ Outcome erase_all_warp(bool there, K key, uint32_t* removed = nullptr) const {
    return access().change_warp(there, kDeleteAll, key, {}, nullptr, removed);
  }

 private:
  using T = Types<K, V, true>;
  using S = typename T::S;
  __device__ __forceinline__ Access<K, V, true> access() const { return {table, terms}; }
};

}  // namespace weft::slab
