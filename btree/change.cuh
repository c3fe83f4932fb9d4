// Changes of a batch by tiles.
#pragma once

#include "seek.cuh"
#include "weft/btree_change.cuh"

namespace weft::btree {

// State says what is to be done with a key.
enum State : uint8_t { kLeave, kStore, kRemove };

constexpr uint32_t kLeftHead = 1 + kLevelMask;  // words before the rows that are left

struct ChangeParams {
  Tree tree;
  const void* keys;         // different ones, ascending; or those of a batch as it comes
  const void* vals;
  const uint8_t* kinds;     // of a batch that is mixed
  const uint8_t* states;    // State of each key; null: a batch as it comes
  const uint32_t* count;    // of keys; null: n
  void* out;                // of a batch as it comes
  uint8_t* ok;
  uint32_t* left;  // how many rows are left of what tiles do together, numbers of new nodes by level, and these rows
  void* grown;     // new nodes, see Grown
  uint32_t* above; // of leaves among these: what may be their parents
  uint64_t n;
  uint32_t kind;
  uint32_t flags;
};

// task is what is to be done with key i.
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

// report tells a batch that comes as it is what has come of an operation.
template <class S, class V>
__device__ __forceinline__ void report(const ChangeParams& p, uint64_t i, const Task<S>& t) {
  const bool reads = t.kind == kGet || t.kind == kPutNew;
  if (p.out) static_cast<V*>(p.out)[i] = reads && t.there ? V(t.value) : V(0);
  if (p.ok) p.ok[i] = t.kind == kNone ? false : t.kind == kGet || t.kind == kDelete || t.kind == kUpdate ? t.there : !t.there;
}

// count_added counts the pairs that a tile has added; all lanes of the warp are there.
template <class T>
__device__ __forceinline__ void count_added(const Tree& t, const T& tile) {
  const uint64_t added = tile.l.rank == 0 ? uint64_t(int64_t(tile.added)) : 0;
  add_up(&control_of(t)->counters.live, added);
  add_up(&control_of(t)->counters.used, added);
}

// finish gives back what a writer has not used, and counts; all lanes of the warp are there.
template <class Writer>
__device__ __forceinline__ void finish(Writer& w) {
  w.done();
  sync_warp();
  count_added(w.t, w);
}

// Cut are pairs [from,to) to be left out.
struct Cut {
  uint64_t from, to;
};

struct KeepParams {
  Tree tree;
  Order order;
  const Cut* gaps;  // in order
  uint64_t count;   // of gaps, at least one
};

}  // namespace weft::btree
