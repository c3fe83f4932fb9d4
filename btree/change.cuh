// The changes of a batch. Tiles run them.
#pragma once

#include "seek.cuh"
#include "weft/btree_change.cuh"

namespace weft::btree {

// State is the change to make to a key.
enum State : uint8_t { kLeave, kStore, kRemove };

constexpr uint32_t kLeftHead = 1 + kLevelMask;  // words of `left` before the rows

struct ChangeParams {
  Tree tree;
  const void* keys;         // distinct and ascending, unless the batch is unordered
  const void* vals;
  const uint8_t* kinds;     // kind of each row of a mixed batch
  const uint8_t* states;    // State of each key; null: an unordered batch
  const uint32_t* count;    // number of keys; null: n
  void* out;                // results of an unordered batch, like ok
  uint8_t* ok;
  uint32_t* left;  // number of rows that together leaves, number of new nodes per level, rows
  void* grown;     // new nodes, see Grown
  uint32_t* above; // for each new leaf, its parent or a node left of the parent
  uint64_t n;
  uint32_t kind;
  uint32_t flags;
};

// task returns the change to make for row i.
template <class S, class K, class V>
__device__ __forceinline__ Task<S> task(const ChangeParams& p, uint64_t i, bool mine) {
  Task<S> t{0, 0, kGet, false};
  if (!mine) return t;
  t.key = key_in<S, K>(p.tree, p.keys, i);
  if (p.states) {
    const uint8_t state = p.states[i];
    t.kind = state == kStore ? kPut : state == kRemove ? kDelete : kNone;
  } else {
    const uint32_t kind = p.kinds ? p.kinds[i] : p.kind;
    t.kind = kind == kUpdate ? kind : known<S>(kind, p.flags);
  }
  if (t.kind != kGet && t.kind != kDelete && t.kind != kNone) t.value = static_cast<const V*>(p.vals)[i];
  return t;
}

// report writes the result of an operation in an unordered batch.
template <class S, class V>
__device__ __forceinline__ void report(const ChangeParams& p, uint64_t i, const Task<S>& t) {
  const bool reads = t.kind == kGet || t.kind == kPutNew;
  if (p.out) static_cast<V*>(p.out)[i] = reads && t.there ? V(t.value) : V(0);
  if (p.ok) p.ok[i] = t.kind == kNone ? false : t.kind == kGet || t.kind == kDelete || t.kind == kUpdate ? t.there : !t.there;
}

// count_added adds to the counters the number of pairs that each tile has added. All lanes of the
// warp call it.
template <class T>
__device__ __forceinline__ void count_added(const Tree& t, const T& tile) {
  const uint64_t added = tile.l.rank == 0 ? uint64_t(int64_t(tile.added)) : 0;
  add_warp_sum(&control_of(t)->counters.live, added);
  add_warp_sum(&control_of(t)->counters.used, added);
}

// finish marks the unused node of a writer as dead, and updates the counters. All lanes of the warp
// call it.
template <class Writer>
__device__ __forceinline__ void finish(Writer& w) {
  w.done();
  sync_warp();
  count_added(w.t, w);
}

// Cut is a range [from,to) of pairs to remove.
struct Cut {
  uint64_t from, to;
};

struct KeepParams {
  Tree tree;
  Order order;
  const Cut* gaps;  // in ascending order
  uint64_t count;   // number of gaps, at least one
};

}  // namespace weft::btree
