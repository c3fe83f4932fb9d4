// The common part of the kernels of ordered maps. It writes the answers of ordered queries, and
// runs the operations on each key of a sorted batch one after the other.
#pragma once

#include "change.cuh"
#include "sums.cuh"

namespace weft::inorder {

// Kinds in addition to those of order.cuh (internal/op).
enum Seek : uint32_t { kUpdate = 11, kRank, kSelect, kSuccessor, kPredecessor };

// Bounds selects pairs of a range: the first `limit` pairs, or with backward the last.
struct Bounds {
  uint32_t limit;  // 0: no limit
  uint32_t backward;
};

// bound reduces the pairs [from,to) to the pairs that b selects.
template <class I>
__device__ __forceinline__ void bound(I& from, I& to, Bounds b) {
  if (b.limit != 0 && to - from > b.limit) b.backward ? from = to - b.limit : to = from + b.limit;
}

// Gap is a run [from,to) of pairs to remove. before is the number of pairs in all earlier gaps.
struct Gap {
  uint64_t from, to, before;
};

// first returns the smallest number of [lo,hi) for which `is` holds, or hi. `is` must also hold for
// all larger numbers.
template <class I, class Is>
__device__ __forceinline__ I first(I lo, I hi, Is is) {
  while (lo < hi) {
    const I mid = lo + (hi - lo) / 2;
    if (is(mid))
      hi = mid;
    else
      lo = mid + 1;
  }
  return lo;
}

// key_in returns key i of a column as an unsigned number in key order.
template <class K>
__device__ __forceinline__ K key_in(const void* keys, uint64_t i, K flip) { return static_cast<const K*>(keys)[i] ^ flip; }

// answer writes a pair as answer i, or zeros if the pair is absent. It returns `there`.
template <class K, class V, class Params, class Key, class Val>
__device__ __forceinline__ bool answer(const Params& p, uint64_t i, bool there, Key key, Val val) {
  if (p.keys) static_cast<K*>(p.keys)[i] = there ? K(key()) : K(0);
  if (p.vals) static_cast<V*>(p.vals)[i] = there ? V(val()) : V(0);
  if (p.ok) p.ok[i] = there;
  return there;
}

// reread stores, for each row of a batch of PutNews, the value that find returns for its key.
// Before the call, ok[i] is 1 if row i inserted its key. After the call, it is 1 if the key was
// present.
template <class K, class V, class Params, class Find>
__device__ __forceinline__ void reread(const Params& p, K flip, Find find) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    V val{};
    const bool there = find(key_in<K>(p.keys, i, flip), val);
    if (there) static_cast<V*>(p.vals)[i] = val;
    if (p.ok) p.ok[i] = there && !p.ok[i];
  }
}

// add adds n to a counter, or subtracts n from it.
__device__ __forceinline__ void add(uint64_t* to, uint64_t n, bool negate) { add_relaxed(to, negate ? 0 - n : n); }

// Slot is the state of a key while the operations on it run.
template <class V>
struct Slot {
  bool there;
  V val;
  bool stored = false;  // one of the operations has stored a value
};

// run runs operation i of a batch on the slot of its key. Params holds the columns and the kind of
// the batch.
template <class V, class Params>
__device__ __forceinline__ void run(const Params& p, uint32_t i, Slot<V>& s) {
  const uint32_t kind = p.kinds ? p.kinds[i] : p.kind;
  bool ok = false;
  V out = 0;
  if (kind == kGet) {
    ok = s.there;
    if (ok) out = s.val;
  } else if (kind == kDelete) {
    ok = s.there;
    s.there = false;
  } else if (kind == kUpdate) {
    ok = s.there;
    if (ok) s.val = static_cast<const V*>(p.vals)[i], s.stored = true;
  } else if (kind == kPut || kind == kPutNew || (reduces(kind) && !(kind > kMax && (p.flags & kFloat)))) {
    const V val = static_cast<const V*>(p.vals)[i];
    ok = !s.there;
    if (s.there && kind == kPutNew)
      out = s.val;
    else
      s.val = s.there && kind != kPut ? combine(kind, p.flags, s.val, val) : val, s.stored = true;
    s.there = true;
  }
  if (p.out) static_cast<V*>(p.out)[i] = out;
  if (p.ok) p.ok[i] = ok;
}

// run_all runs the operations on a key in batch order. They are numbers [from,to) of the batch in
// key order. If all are Puts that report nothing, it runs only the last.
template <class V, class Params>
__device__ __forceinline__ void run_all(const Params& p, uint32_t from, uint32_t to, Slot<V>& s) {
  if (!p.kinds && p.kind == kPut && !p.ok) from = to - 1;
  for (; from < to; from++) run(p, p.order[from], s);
}

}  // namespace weft::inorder
