// Kernels of trees with versions. They keep the old contents of leaves for snapshots, and read
// them. weft/btree_past.cuh describes how. Lookups in the present use btree.cu. If kernels take
// snapshots, now_get replaces the lookup of keys.
#include "change.cuh"
#include "get.cuh"
#include "together.cuh"
#include "weft/btree_past.cuh"
#include "weft/entry.cuh"

namespace weft::btree {

constexpr uint32_t kBlock = 256;  // threads per block, as in internal/gpu

// ---- reading -------------------------------------------------------------------

struct ThenGetParams {
  Tree tree;
  Past past;
  uint64_t time;  // kAlways: the present
  const void* keys;
  void* vals;  // may be null, like the pointers below
  uint8_t* found;
  uint64_t* hits;         // the kernel adds the number of keys found
  const uint32_t* count;  // number of keys; null: n
  uint64_t n;
  uint64_t answer;  // vals and found hold the results of a batch of PutNews that has run
};

// then_get looks up keys as of a time, one per tile.
template <class S, class K, class V>
__device__ __forceinline__ void then_get(const ThenGetParams& p) {
  constexpr uint32_t lanes = Shape<S>::kLanes;
  const uint64_t n = p.count ? *p.count : p.n;
  uint32_t hits = 0;
  for (uint64_t i = thread_index() / lanes; i < n; i += threads_in_grid() / lanes) {
    Then<S> r(p.tree, p.past, p.time);
    const typename S::Key key = key_in<S, K>(p.tree, p.keys, i);
    r.find(key);
    uint32_t at = 0;
    const bool found = r.node.has(r.l, key, count_of(r.state), at);
    const typename S::Key val = found ? S::value(r.node.word(r.l, at)) : typename S::Key(0);
    if (r.l.rank != 0) continue;
    if (p.vals && (found || !p.answer)) static_cast<V*>(p.vals)[i] = V(val);
    if (p.found) p.found[i] = p.answer ? found && !p.found[i] : found;
    hits += found;
  }
  sync_warp();
  if (p.hits) add_warp_sum(p.hits, hits);
}

struct NowGetParams {
  GetParams get;
  Past past;
};

// now_get looks up keys in the present. A latched leaf may contain a write that has no time yet,
// and its reader must set that time. Otherwise a snapshot taken after this lookup would miss the
// write.
template <class S, class K, class V>
__device__ __forceinline__ void now_get(const NowGetParams& p) {
  get<S, K, V>(p.get, [&](const auto& l, uint32_t leaf, uint32_t state) __attribute__((always_inline)) {
    if (!(state & kLatched) || l.rank != 0) return;
    const uint64_t time = load_acquire(time_of(p.past, leaf));
    if (time >= kUnset) date(p.past, leaf, time);
  });
}

struct ThenSeekParams {
  SeekParams seek;
  Past past;
  uint64_t time;
};

struct ThenCollectParams {
  CollectParams collect;
  Past past;
  uint64_t time;
};

// then returns the node that has the contents of a leaf as of a time. It returns kNone if these
// contents belong to another leaf, or have no pairs. No change may run meanwhile.
template <class S>
__device__ __forceinline__ uint32_t then(const Tree& t, const Past& p, uint32_t id, uint64_t time) {
  uint32_t at = id, of = id;
  while (*time_of(p, at) > time) {
    const uint64_t links = *links_of(p, at);
    at = uint32_t(links);
    if (at == kNone) __builtin_trap();
    of = uint32_t(*links_of(p, at) >> 32);
  }
  const uint32_t state = uint32_t(*state_word<S>(t, at) >> 32);
  return of != id || (state & kDead) || count_of(state) == 0 ? kNone : at;
}

// then_collect lists the leaves that had pairs as of a time.
template <class S>
__device__ __forceinline__ void then_collect(const ThenCollectParams& p) {
  collect_all<S>(p.collect, [&](uint32_t id, uint32_t state) {
    return level_of(state) == 0 ? then<S>(p.collect.tree, p.past, id, p.time) : kNone;
  });
}

// ---- changes -------------------------------------------------------------------

// epoch_rounds calls run(at) for all at < n, each in one tile. If kernels take snapshots, all tiles
// of a block run the same number of rounds, so that epochs end.
template <class S, class T, class Run>
__device__ __forceinline__ void epoch_rounds(const Tree& t, const Past& p, uint64_t n, T& tile, Run run) {
  constexpr uint32_t lanes = Shape<S>::kLanes;
  const uint64_t step = threads_in_grid() / lanes, mine = thread_in_block() / lanes;
  const bool outside = tile.past.outside();
  const Free free{t, p, &tile.past.block};
  if (outside) tile.past.block.enter();
  for (uint64_t first = thread_index() / lanes - mine; first < n; first += step) {
    if (outside) tile.past.block.begin(free);
    if (first + mine < n) run(first + mine);
  }
  sync_warp();
}

struct KeptChangeParams {
  ChangeParams change;
  Past past;
};

// kept_together is together for a tree with snapshots.
template <class S, class K, class V>
__device__ __forceinline__ void kept_together(const KeptChangeParams& p) {
  __shared__ EpochBags<kBag> bags;
  const ChangeParams& c = p.change;
  const uint64_t n = c.count ? *c.count : c.n;
  const Shares share = Shares::of<S>(n);
  Lockstep<S, V, Versioned> all{c.tree, Grown<S>::of(c), {p.past, {p.past.epochs, &bags}}};
  all.flags = c.flags;
  const bool outside = all.past.outside();
  if (outside) all.past.block.enter();
#pragma unroll 1
  for (uint32_t k = 0; k < share.each; k++) {
    if (outside) all.past.block.begin(Free{c.tree, p.past, &all.past.block});
    together_run<S, K, V>(c, all, share.first + k, n);
  }
  sync_warp();
  if (outside) all.past.block.leave();
  count_added(c.tree, all);
  all.past.count();
}

// wind_up ends the rounds of a writer, and adds to the counters what the writer has done.
template <class Writer>
__device__ __forceinline__ void wind_up(Writer& w) {
  if (w.past.outside()) w.leave();
  finish(w);
  w.past.count();
}

// kept_change is change for a tree with snapshots.
template <class S, class K, class V>
__device__ __forceinline__ void kept_change(const KeptChangeParams& p) {
  __shared__ EpochBags<kBag> bags;
  Writer<S, V, Versioned> w{p.change.tree, {p.past, {p.past.epochs, &bags}}};
  w.flags = p.change.flags;
  epoch_rounds<S>(p.change.tree, p.past, p.change.left[0], w, [&](uint64_t at) __attribute__((always_inline)) { left_over<S, K, V>(p.change, w, at); });
  wind_up(w);
}

struct KeptKeepParams {
  KeepParams keep;
  Past past;
};

// keep_leaf removes the pairs in the gaps from leaf number i of the order. One tile executes it.
template <class S, class V, class Writer>
__device__ __forceinline__ void keep_leaf(const KeepParams& p, Writer& w, uint64_t i) {
  const uint64_t first = p.order.before[i], end = p.order.before[i + 1];
  uint64_t lo = inorder::first<uint64_t>(0, p.count, [&](uint64_t g) { return p.gaps[g].to > first; });
  if (lo == p.count || p.gaps[lo].from >= end) return;
  typename Writer::Held h;
  while (!w.hold(p.order.ids[i], h)) {
  }
  const uint32_t was = h.count();
  uint32_t left = 0;
  for (uint64_t at = first; at < end; at++) {
    while (lo < p.count && p.gaps[lo].to <= at) lo++;
    if (lo < p.count && p.gaps[lo].from <= at) continue;
    if (left != at - first) h.n.set(w.l, left, h.n.word(w.l, uint32_t(at - first)));
    left++;
  }
  w.added -= was - left;
  w.write(h, left, was);
}

// kept_keep is keep for a tree with snapshots.
template <class S, class V>
__device__ __forceinline__ void kept_keep(const KeptKeepParams& p) {
  __shared__ EpochBags<kBag> bags;
  Writer<S, V, Versioned> w{p.keep.tree, {p.past, {p.past.epochs, &bags}}};
  epoch_rounds<S>(p.keep.tree, p.past, *p.keep.order.count, w, [&](uint64_t i) __attribute__((always_inline)) { keep_leaf<S, V>(p.keep, w, i); });
  wind_up(w);
}

// ---- snapshots of the host -------------------------------------------------------

struct TickParams {
  Past past;
  uint64_t* time;
};

struct GiveParams {
  Tree tree;
  Past past;
  uint32_t* stacks;
  uint32_t count;
  uint32_t unused;
};

}  // namespace weft::btree

using namespace weft;
using namespace weft::btree;
WEFT_WIDTHS;

WEFT_KERNEL(btree_versions_get, 3)(ThenGetParams p) { then_get<S, K, V>(p); }
WEFT_KERNEL(btree_versions_now, 5)(NowGetParams p) { now_get<S, K, V>(p); }
WEFT_KERNEL(btree_versions_seek, 3)(ThenSeekParams p) {
  weft::btree::seek<S, K, V>(p.seek, [&] { return Then<S>(p.seek.tree, p.past, p.time); });
}
WEFT_KERNEL(btree_versions_collect, 4)(ThenCollectParams p) { then_collect<S>(p); }
WEFT_KERNEL(btree_versions_together, 2)(KeptChangeParams p) { kept_together<S, K, V>(p); }
WEFT_KERNEL(btree_versions_change, 2)(KeptChangeParams p) { kept_change<S, K, V>(p); }
WEFT_KERNEL(btree_versions_keep, 2)(KeptKeepParams p) { kept_keep<S, V>(p); }
WEFT_KERNEL(btree_versions_tick, 1)(TickParams p) {
  if (thread_index() == 0) *p.time = snapshot(p.past);
}
WEFT_KERNEL(btree_versions_give, 1)(GiveParams p) { epoch_collect(p.past.epochs, p.stacks, p.count, Free{p.tree, p.past}); }
