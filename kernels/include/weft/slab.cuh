// A slab.Map, slab.Set or slab.MultiMap in users' kernels. Package slab documents how to get a Ref
// in Go; docs/refs.md is a guide.
//
// A call without a suffix is for one lane, and may be made anywhere: lanes may diverge, loop, and
// have returned. A call with _warp is for all 32 lanes of a warp together. Each lane brings one key
// or none, and memory is read as in weft's own batches. No lane may have returned or be in another
// branch: the launch traps if lanes are missing, and waits for those that are elsewhere. Both kinds
// of calls may be mixed.
//
// Changes return their outcome: kInserted, or kRevived into the slot that the key had before;
// kPresent, kReplaced, kDeleted, kNothing; and kFull. kFull means that the table was full, that the
// Update permits no more insertions, or that the Ref is one of View. Then nothing has changed, and
// Sync returns ErrFull.
#pragma once

#include "ref.cuh"
#include "slab_alone.cuh"
#include "slab_change.cuh"
#include "slab_find.cuh"

namespace weft::slab {

// Access is how Refs access their tables.
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
    bool hit = find_alone<S>(table, T::key(key), held);
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
  // change runs an operation of this lane. The number of pairs that a deletion has removed is
  // stored in *removed.
  __device__ __forceinline__ Outcome change(uint32_t kind, K key, Value value, Value* held, uint32_t* removed = nullptr) const {
    terms.check(T::kShape);
    Operation<S> op = T::operation(true, kind, key, value);
    op.outcome = kFull;
    uint32_t n = 0;
    if (terms.permits(kind, Multi))
      n = change_alone<S, Multi, typename T::Bits>(table, terms.flags() | kMeaning<V>, op, terms.quota());
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

// Ref is a map or, if V is void, a set. It is passed to kernels by value. K and V match the table's
// Go types: 32 or 64 bits, integers or floats.
template <class K, class V = void>
struct Ref {
  using Value = typename As<V>::Given;

  Table table;
  Terms terms;

  // ---- lookups ----

  // find reports whether a key is present, and stores its value in *value unless that is null.
  __device__ __forceinline__ bool find(K key, Value* value = nullptr) const { return access().find(key, value); }
  __device__ __forceinline__ bool find_warp(bool there, K key, Value* value = nullptr) const {
    return access().find_warp(there, key, value);
  }

  // for_each calls f(key, value), or f(key) of a set, for all pairs of one of `parts` parts of the
  // table. With thread_index() and threads_in_grid() a launch visits all of it. Pairs that come or
  // go meanwhile are seen or not, and a key that is erased and inserted again may be seen twice.
  // Lanes diverge within f.
  template <class F>
  __device__ __forceinline__ void for_each(uint64_t part, uint64_t parts, F f) const {
    terms.check(T::kShape);
    for_each_alone<S>(table, part, parts, [&](typename S::Key key, typename S::Key value) { T::give(f, key, value); });
  }

  // ---- changes, of Update ----

  // insert inserts an absent key. If the key is present, its value is stored in *held, unless that
  // is null.
  __device__ __forceinline__ Outcome insert(K key, Value value = {}, Value* held = nullptr) const {
    return access().change(kPutNew, key, value, held);
  }
  // put inserts a key or replaces its value.
  __device__ __forceinline__ Outcome put(K key, Value value) const { return access().change(kPut, key, value, nullptr); }
  // reduce inserts a key, or combines its value with another: kSum, kMin, kMax, kAnd or kOr.
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

// MultiRef is a multimap.
template <class K, class V>
struct MultiRef {
  Table table;
  Terms terms;

  // ---- lookups ----

  // find stores the value of the least recent pair of a key in *value.
  __device__ __forceinline__ bool find(K key, V* value = nullptr) const { return access().find(key, value); }
  __device__ __forceinline__ bool find_warp(bool there, K key, V* value = nullptr) const {
    return access().find_warp(there, key, value);
  }

  // for_each calls f(value) for all pairs of a key, in their order.
  template <class F>
  __device__ __forceinline__ void for_each(K key, F f) const {
    terms.check(T::kShape);
    for_each_alone<S>(table, T::key(key), [&](typename S::Key held) {
      f(As<V>::from(held));
      return true;
    });
  }
  // for_each_warp calls f(from, value) for all pairs of the keys that the lanes bring, in any lane:
  // `from` is the lane with the key. Lanes diverge within f.
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

  // for_each calls f(key, value), or f(key) of a set, for all pairs of one of `parts` parts of the
  // table. With thread_index() and threads_in_grid() a launch visits all of it. Pairs that come or
  // go meanwhile are seen or not, and a key that is erased and inserted again may be seen twice.
  // Lanes diverge within f.
  template <class F>
  __device__ __forceinline__ void for_each(uint64_t part, uint64_t parts, F f) const {
    terms.check(T::kShape);
    for_each_alone<S>(table, part, parts, [&](typename S::Key key, typename S::Key value) { T::give(f, key, value); });
  }

  // ---- changes, of Update ----

  // add adds a pair.
  __device__ __forceinline__ Outcome add(K key, V value) const { return access().change(kPut, key, value, nullptr); }
  // insert adds a pair for a key that has none. If it has one, the value of the least recent is
  // stored in *held, unless that is null.
  __device__ __forceinline__ Outcome insert(K key, V value, V* held = nullptr) const {
    return access().change(kPutNew, key, value, held);
  }
  // erase removes the least recent pair of a key.
  __device__ __forceinline__ Outcome erase(K key) const { return access().change(kDelete, key, {}, nullptr); }
  // erase_all removes all pairs of a key, and stores their number in *removed unless that is null.
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
