// Changes of a batch by tiles.
#pragma once

#include "seek.cuh"
#include "weft/btree_change.cuh"

namespace weft::btree {

// State says what is to be done with a key.
enum State : uint8_t { kLeave, kStore, kRemove };

struct ChangeParams {
  Tree tree;
  const void* keys;         // different ones, ascending; or those of a batch as it comes
  const void* vals;
  const uint8_t* kinds;     // of a batch that is mixed
  const uint8_t* states;    // State of each key; null: a batch as it comes
  const uint32_t* count;    // of keys; null: n
  void* out;                // of a batch as it comes
  uint8_t* ok;
  uint32_t* left;  // how many rows are left of what tiles do together, and these
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

// spread is a number below n, another for each i below a power of two that is not below n, of which
// neighbors lie far apart; or one that is not below n.
__device__ __forceinline__ uint64_t spread(uint64_t i, uint64_t mask) { return i * 0x9e3779b1u & mask; }

// tile_run does run number at of a batch, some neighboring keys, by a tile.
template <class S, class K, class V, class Writer>
__device__ __forceinline__ void tile_run(const ChangeParams& p, Writer& w, uint64_t at, uint64_t mask, uint64_t n) {
  constexpr uint32_t lanes = Shape<S>::kLanes;
  const uint64_t first = spread(at, mask) * lanes, i = first + w.l.rank;
  if (first >= n) return;
  Task<S> mine = task<S, K, V>(p, i, i < n);
  const uint32_t left = n - first < lanes ? uint32_t(n - first) : lanes;
  if (p.states)
    w.run(mine, 0, left);
  else
    for (uint32_t c = 0; c < left; c++) w.run(mine, c, c + 1);
  if (!p.states && i < n) report<S, V>(p, i, mine);
}

// mask_of is that of spread, for runs of n keys.
template <class S>
__device__ __forceinline__ uint64_t mask_of(uint64_t n) {
  constexpr uint32_t lanes = Shape<S>::kLanes;
  uint64_t mask = (n + lanes - 1) / lanes;
  for (uint32_t x = 1; x < 64; x *= 2) mask |= mask >> x;
  return mask;
}

// finish gives back what a writer has not used, and counts; all lanes of the warp are there.
template <class Writer>
__device__ __forceinline__ void finish(Writer& w) {
  w.done();
  sync_warp();
  const uint64_t added = w.l.rank == 0 ? uint64_t(int64_t(w.added)) : 0;
  add_up(&control_of(w.t)->counters.live, added);
  add_up(&control_of(w.t)->counters.used, added);
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
