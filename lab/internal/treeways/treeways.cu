// Kernels that change B-trees in other ways than package btree, and kernels that look up keys.
// treeways.go explains them. Each tile runs the operations of its lanes, one after the other.
#include "weft/btree.cuh"
#include "weft/widths.cuh"

namespace weft::btree {

using S = Widths<32, 32>::S;

// ---- ways ----------------------------------------------------------------------

template <class T>
struct Restarting : T {};
template <class T>
struct Spinning : T {};
template <class T>
struct BackingOff : T {};
template <class T>
struct Fenced : T {};
template <class T>
struct Erasing : T {};
template <class T>
struct Caching : T {};

// A tile that finds a latch taken starts over immediately.
template <class T>
struct Way<Restarting<T>> : Way<T> {
  __device__ __forceinline__ static void rest(uint32_t) {}
};

// A tile that finds a latch taken polls until it is free. Latches are taken in one order, so a
// cycle of waiting tiles is impossible.
template <class T>
struct Way<Spinning<T>> : Way<T> {
  __device__ __forceinline__ static bool latch(uint64_t* word) {
    while (!Way<T>::latch(word)) {
    }
    return true;
  }
};

// The same as Spinning, but with pauses. Each pause is twice as long as the one before, up to two
// microseconds.
template <class T>
struct Way<BackingOff<T>> : Way<T> {
  __device__ __forceinline__ static bool latch(uint64_t* word) {
    for (uint32_t ns = 32; !Way<T>::latch(word); ns = ns < 2048 ? 2 * ns : ns) pause(ns);
    return true;
  }
};

// Device fences replace acquire and release, like __threadfence in published code.
template <class T>
struct Way<Fenced<T>> : Way<T> {
  template <class W>
  __device__ __forceinline__ static W acquire(const W* p) {
    const W w = load_relaxed(p);
    fence_sc();
    return w;
  }
  template <class W>
  __device__ __forceinline__ static void release(W* p, W w) {
    fence_sc();
    store_relaxed(p, w);
  }
  __device__ __forceinline__ static Word128 inner(const Word128* p) { return acquire(p); }
  __device__ __forceinline__ static bool latch(uint64_t* word) {
    const uint64_t was = load_relaxed(word), bit = uint64_t(kLatched) << 32;
    if (was & bit || cas_relaxed(word, was, was | bit) != was) return false;
    fence_sc();
    return true;
  }
};

// Nodes are not merged, so launches of deletions change no inner nodes.
template <class T>
struct Way<Erasing<T>> : Way<T> {
  static constexpr bool kMerges = false;
};

// Inner nodes are read through the L1 cache, in launches that change no inner nodes.
template <class T>
struct Way<Caching<T>> : Way<T> {
  __device__ __forceinline__ static Word128 inner(const Word128* p) { return load_weak(p); }
};

// Coupled takes the latch of a child before it releases the latch of the parent, from the root to
// the leaf. It splits full nodes on the way, so the parent of a full node is never full. It does
// not follow links.
struct Coupled : Writer<Spinning<S>, uint32_t> {
  using Base = Writer<Spinning<S>, uint32_t>;

  __device__ __forceinline__ void run(Task<Spinning<S>>& mine, uint32_t at, uint32_t n) {
    while (at < n) {
      const Task<Spinning<S>> op{l.share(mine.key, at), l.share(mine.value, at), l.share(mine.kind, at), false};
      Held leaf;
      if (!way_down(op.key, leaf)) continue;
      put(leaf, op, mine, at);
      at++;
    }
  }

 private:
  // way_down latches the leaf of a key and returns true if the leaf has a free slot. If way_down
  // has split a node instead, it returns false.
  __device__ __forceinline__ bool way_down(Key key, Held& leaf) {
    Held h;
    hold(kRoot, h);
    if (h.count() == kSlots) {
      cut_root(h);
      return false;
    }
    while (true) {
      Key low;
      hold(h.n.child(l, key, low), leaf);
      if (leaf.count() == kSlots) {
        divide(leaf, h);
        return false;
      }
      free(h);
      if (leaf.level() == 0) return true;
      h = leaf;
    }
  }

  __device__ __forceinline__ void put(Held& leaf, const Task<Spinning<S>>& op, Task<Spinning<S>>& mine, uint32_t at) {
    uint32_t count = leaf.count();
    bool changed = false;
    act(leaf, op, count, changed, mine, l.rank == at);
    if (changed)
      write(leaf, count, count);
    else
      free(leaf);
  }
};

// ---- launches --------------------------------------------------------------------

struct ChangeParams {
  btree::Ref<uint32_t, uint32_t> ref;
  const uint32_t* keys;
  const uint32_t* vals;
  uint32_t n;
  uint32_t kind;
};

struct FindParams {
  btree::Ref<uint32_t, uint32_t> ref;
  const uint32_t* keys;
  uint32_t* vals;
  uint8_t* found;
  uint64_t n;
};

// change runs the operations of the lanes of its tile, one after the other, with writer W of slots
// T.
template <class T, class W = Writer<T, uint32_t>>
__device__ __forceinline__ void change(const ChangeParams& p) {
  using P = Typed<uint32_t, uint32_t>;
  W w{p.ref.tree};
  constexpr uint32_t lanes = Shape<T>::kLanes;
  for (uint64_t first = thread_index() / lanes * lanes; first < p.n; first += threads_in_grid()) {
    const uint64_t i = first + w.l.rank;
    const uint32_t left = p.n - first < lanes ? uint32_t(p.n - first) : lanes;
    const bool there = i < p.n;
    Task<T> mine{there ? P::in(p.ref.tree, p.keys[i]) : 0, there && p.vals ? p.vals[i] : 0, there ? p.kind : uint32_t(kNone), false};
#pragma unroll 1
    for (uint32_t c = 0; c < left; c++) w.run(mine, c, c + 1);
  }
  w.done();
  sync_warp();
  const uint64_t added = w.l.rank == 0 ? uint64_t(int64_t(w.added)) : 0;
  add_warp_sum(&control_of(w.t)->counters.live, added);
  add_warp_sum(&control_of(w.t)->counters.used, added);
}

// find looks up one key per lane. The tiles of a warp run in step.
template <class T>
__device__ __forceinline__ void find(const FindParams& p) {
  using L = Lanes<T, true>;
  const L l;
  for (uint64_t base = thread_index() - lane_index(); base < p.n; base += threads_in_grid()) {
    const uint64_t i = base + lane_index();
    const uint32_t key = i < p.n ? Typed<uint32_t, uint32_t>::in(p.ref.tree, p.keys[i]) : 0;
    uint32_t value = 0, hit = 0;
#pragma unroll 1
    for (uint32_t c = 0; c < L::kLanes; c++) {
      const uint32_t k = l.share(key, c);
      Search<T, true> s;
      Node<T, true> node;
      uint32_t state = 0;
      while (ballot(kAll, !s.leaf)) s.descend(p.ref.tree, l, k);
      for (bool there = false; ballot(kAll, !there);) there = s.step(p.ref.tree, l, k, node, state);
      bool has = false;
      uint32_t v = 0;
      node.each(l.rank, [&](uint32_t, uint32_t, uint32_t number, uint64_t w) {
        if (number < count_of(state) && T::key(w) == k) has = true, v = T::value(w);
      });
      const uint32_t who = l.vote(has);
      v = l.share(v, who ? lowest(who) : 0);
      if (l.rank == c) hit = who != 0, value = who ? v : 0;
    }
    if (i < p.n) p.vals[i] = value, p.found[i] = uint8_t(hit);
  }
}

}  // namespace weft::btree

using namespace weft;
using namespace weft::btree;
using In = weft::btree::S;

#define TREEWAYS(name, Params, run) \
  extern "C" __global__ void __launch_bounds__(256, 2) treeways_##name(Params p) { run(p); }

TREEWAYS(alone, weft::btree::ChangeParams, weft::btree::change<In>)
TREEWAYS(restart, weft::btree::ChangeParams, weft::btree::change<Restarting<In>>)
TREEWAYS(spin, weft::btree::ChangeParams, weft::btree::change<Spinning<In>>)
TREEWAYS(backoff, weft::btree::ChangeParams, weft::btree::change<BackingOff<In>>)
TREEWAYS(fences, weft::btree::ChangeParams, weft::btree::change<Fenced<In>>)
TREEWAYS(coupled, weft::btree::ChangeParams, (weft::btree::change<Spinning<In>, Coupled>))
TREEWAYS(erase, weft::btree::ChangeParams, weft::btree::change<Erasing<In>>)
TREEWAYS(erase_l1, weft::btree::ChangeParams, weft::btree::change<Caching<Erasing<In>>>)
TREEWAYS(find, weft::btree::FindParams, weft::btree::find<In>)
TREEWAYS(find_l1, weft::btree::FindParams, weft::btree::find<Caching<In>>)
