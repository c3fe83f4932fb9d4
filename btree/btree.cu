// Kernels of package btree, an ordered map in a B-link tree. layout.go describes the layout and the
// protocol. weft/btree_node.cuh reads nodes, and weft/btree_change.cuh changes them.
#include "change.cuh"
#include "get.cuh"
#include "together.cuh"
#include "weft/account.cuh"
#include "weft/entry.cuh"

namespace weft::btree {

constexpr uint32_t kBlock = 256;  // threads per block, as in internal/gpu

// ---- the order of the leaves ---------------------------------------------------

// collect lists the leaves that have pairs.
template <class S>
__device__ __forceinline__ void collect(const CollectParams& p) {
  collect_all<S>(p, [](uint32_t id, uint32_t state) {
    return !(state & kDead) && level_of(state) == 0 && count_of(state) != 0 ? id : kNone;
  });
}

struct SizesParams {
  Tree tree;
  const uint32_t* ids;
  const uint32_t* count;
  uint32_t* sizes;
  uint64_t n;
};

// sizes writes the number of pairs in each listed leaf, and zeros after the last leaf.
template <class S>
__device__ __forceinline__ void sizes(const SizesParams& p) {
  const uint32_t count = *p.count;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid())
    p.sizes[i] = i < count ? count_of(uint32_t(*state_word<S>(p.tree, p.ids[i]) >> 32)) : 0;
}

struct PlaceParams {
  Tree tree;
  Order order;
  const void* lo;  // keys, or the lower bounds of ranges
  const void* hi;  // upper bounds of ranges
  void* keys;      // may be null, like the pointers below
  void* vals;
  uint8_t* ok;
  uint64_t* ranks;   // output of kRank, input of kSelect
  uint32_t* counts;  // number of pairs in each range
  uint64_t* hits;    // the kernel adds the number of rows with a result
  uint64_t n;
  Bounds bounds;
  uint32_t kind;
  uint32_t unused;
};

// places answers Rank, Count and Select, one row per thread.
template <class S, class K, class V>
__device__ __forceinline__ void places(const PlaceParams& p) {
  uint32_t hits = 0;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    if (p.kind == kSelect) {
      const uint64_t rank = p.ranks[i];
      const uint32_t leaves = *p.order.count;
      const bool there = leaves != 0 && rank < p.order.before[leaves];
      typename S::Word w{};
      if (there) {
        uint32_t leaf = leaf_at(p.order, 0, rank);
        w = pair_at<S>(p.tree, p.order, leaf, rank);
      }
      hits += answer<K, V>(p, i, there, [&] { return key_out<S, K>(p.tree, w); }, [&] { return S::value(w); });
      continue;
    }
    const typename S::Key lo = key_in<S, K>(p.tree, p.lo, i);
    if (p.kind == kRank) {
      p.ranks[i] = place<S>(p.tree, p.order, lo).rank;
      continue;
    }
    const Span s = span<S>(p.tree, p.order, lo, key_in<S, K>(p.tree, p.hi, i), p.bounds);
    p.counts[i] = uint32_t(s.to - s.from);
    hits += s.to != s.from;
  }
  sync_warp();
  if (p.hits) add_warp_sum(p.hits, hits);
}

struct RowsParams {
  Tree tree;
  Order order;
  const void* lo;
  const void* hi;
  const uint64_t* offsets;  // output row of each range's first pair
  void* keys;
  void* vals;
  uint32_t* found;  // may be null
  uint64_t n;
  uint64_t first, limit;  // rows to write: [first, limit)
  Bounds bounds;
};

constexpr uint32_t kRowLanes = 8;  // number of lanes that copy the pairs of a range

// rows writes the pairs of all ranges, one range after the other.
template <class S, class K, class V>
__device__ __forceinline__ void rows(const RowsParams& p) {
  for (uint64_t i = thread_index() / kRowLanes; i < p.n; i += threads_in_grid() / kRowLanes) {
    const Span s = span<S>(p.tree, p.order, key_in<S, K>(p.tree, p.lo, i), key_in<S, K>(p.tree, p.hi, i), p.bounds);
    const uint64_t row = p.offsets[i];
    const uint32_t lane = thread_in_block() % kRowLanes;
    uint32_t leaf = s.to == s.from ? 0 : leaf_at(p.order, 0, p.bounds.backward ? s.to - 1 : s.from);
    for (uint64_t j = lane; j < s.to - s.from && row + j < p.limit; j += kRowLanes) {
      const typename S::Word w = pair_at<S>(p.tree, p.order, leaf, p.bounds.backward ? s.to - 1 - j : s.from + j);
      static_cast<K*>(p.keys)[row + j - p.first] = key_out<S, K>(p.tree, w);
      static_cast<V*>(p.vals)[row + j - p.first] = V(S::value(w));
    }
    if (p.found && lane == 0) p.found[i] = uint32_t(s.to - s.from);
  }
}

struct CopyParams {
  Tree tree;
  Order order;
  void* keys;
  void* vals;
  uint64_t from, n;
  uint32_t backward;
  uint32_t unused;
};

// copy_pairs copies n pairs. Forward, it begins with the pair of rank `from`. Backward, it begins
// with the pair before that rank, and ranks descend.
template <class S, class K, class V>
__device__ __forceinline__ void copy_pairs(const CopyParams& p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint64_t rank = p.backward ? p.from - 1 - i : p.from + i;
    uint32_t leaf = leaf_at(p.order, 0, rank);
    const typename S::Word w = pair_at<S>(p.tree, p.order, leaf, rank);
    static_cast<K*>(p.keys)[i] = key_out<S, K>(p.tree, w);
    static_cast<V*>(p.vals)[i] = V(S::value(w));
  }
}

// ---- changes -------------------------------------------------------------------

struct SettleParams {
  const uint32_t* order;   // rows of the batch, sorted by key
  const uint32_t* starts;  // first row of each key, and the end
  const uint32_t* count;   // number of distinct keys
  const void* vals;
  const uint8_t* kinds;
  void* out;
  uint8_t* ok;
  void* entry_vals;      // per key; in, if `there` is set: its value; out: its new value
  const uint8_t* there;  // per key: whether the tree has it; null: not searched
  uint8_t* states;       // per key: a State
  uint32_t n;
  uint32_t kind;
  uint32_t flags;
  uint32_t unused;
};

// settle runs the operations of each key in batch order, one key per thread.
template <class V>
__device__ __forceinline__ void settle(const SettleParams& p) {
  const uint32_t count = *p.count;
  for (uint64_t i = thread_index(); i < count; i += threads_in_grid()) {
    V* const val = static_cast<V*>(p.entry_vals) + i;
    const bool was = p.there && p.there[i];
    Slot<V> s{was, was ? *val : V(0)};
    run_all(p, p.starts[i], p.starts[i + 1], s);
    *val = s.val;
    p.states[i] = s.there ? s.stored ? kStore : kLeave : was || !p.there ? kRemove : kLeave;
  }
}

// change runs the operations that together has left, one per tile.
template <class S, class K, class V>
__device__ __forceinline__ void change(const ChangeParams& p) {
  constexpr uint32_t lanes = Shape<S>::kLanes;
  Writer<S, V> w{p.tree};
  w.flags = p.flags;
  for (uint64_t at = thread_index() / lanes; at < p.left[0]; at += threads_in_grid() / lanes) left_over<S, K, V>(p, w, at);
  finish(w);
}

// keep removes the pairs in the given gaps from their leaves, one leaf per thread. Lookups may run
// at the same time.
template <class S>
__device__ __forceinline__ void keep(const KeepParams& p) {
  const uint32_t leaves = *p.order.count;
  uint64_t gone = 0;
  for (uint64_t i = thread_index(); i < leaves; i += threads_in_grid()) {
    const uint64_t first = p.order.before[i], end = p.order.before[i + 1];
    uint64_t lo = inorder::first<uint64_t>(0, p.count, [&](uint64_t g) { return p.gaps[g].to > first; });
    if (lo == p.count || p.gaps[lo].from >= end) continue;
    const uint32_t id = p.order.ids[i];
    uint64_t* word = state_word<S>(p.tree, id);
    const uint64_t was = load_relaxed(word);
    store_relaxed(word, was | uint64_t(kLatched | kChanging) << 32);
    uint32_t left = 0;
    for (uint64_t at = first; at < end; at++) {
      while (lo < p.count && p.gaps[lo].to <= at) lo++;
      if (lo < p.count && p.gaps[lo].from <= at) continue;
      if (left != at - first) store_release(slot_of<S>(p.tree, id, left), load_relaxed(slot_of<S>(p.tree, id, uint32_t(at - first))));
      left++;
    }
    store_release(word, uint64_t(next_state(uint32_t(was >> 32), left)) << 32 | uint32_t(was));
    gone += end - first - left;
  }
  sync_warp();
  add_warp_sum(&control_of(p.tree)->counters.live, 0 - gone);
  add_warp_sum(&control_of(p.tree)->counters.used, 0 - gone);
}

// ---- whole trees -----------------------------------------------------------------

struct BulkParams {
  Tree to;
  const void* keys;  // distinct, ascending
  const void* vals;
  const uint32_t* count;  // number of keys, at least one
  uint64_t fill;          // slots to use in each node
  // If vals has one value per key, starts is null. Otherwise starts has the first row of each key.
  // The value in the first row counts if last is 0, and the value in the last row if last is 1.
  const uint32_t* starts;
  uint64_t last;
};

// Levels describes one level of a tree that bulk writes. The root is node 0. The nodes of each
// level follow it, leaves first.
struct Levels {
  uint64_t size, first;  // number of nodes in the level, and its first node
  uint64_t span;         // number of pairs below a node
  uint32_t level;
};

constexpr uint32_t kBulkLanes = 16;  // lanes per node: one per slot, and one for the header

// bulk writes a tree with the given pairs. The contents of a node follow from its number.
template <class S, class K, class V>
__device__ __forceinline__ void bulk(const BulkParams& p) {
  using Key = typename S::Key;
  const uint64_t n = *p.count;
  const uint32_t lane = thread_in_block() % kBulkLanes;
  const uint64_t leaves = (n + p.fill - 1) / p.fill;
  uint64_t nodes = 1;
  for (uint64_t size = n; size > p.fill;) nodes += size = (size + p.fill - 1) / p.fill;
  if (n <= p.fill) nodes++;  // a root and a leaf
  for (uint64_t id = thread_index() / kBulkLanes; id < nodes; id += threads_in_grid() / kBulkLanes) {
    Levels at{leaves, 1, p.fill, 0};
    // for the level below: number of nodes, first node, number of pairs below each node
    uint64_t below = 0, below_first = 0, child = 1;
    while (id == 0 ? at.size > 1 || at.level == 0 : id >= at.first + at.size) {
      below = at.size, below_first = at.first, child = at.span;
      at = {(at.size + p.fill - 1) / p.fill, at.first + at.size, at.span * p.fill, at.level + 1};
    }
    const uint64_t j = id == 0 ? 0 : id - at.first;
    const uint64_t from = j * p.fill, all = at.level == 0 ? n : below;
    const uint64_t to = from + p.fill < all ? from + p.fill : all;
    if (lane < Shape<S>::kSlots) {
      const uint64_t slot = from + lane < to ? from + lane : from;
      typename S::Word w;
      if (at.level == 0)
        w = S::pair(key_in<S, K>(p.to, p.keys, slot), Key(static_cast<const V*>(p.vals)[p.starts ? p.starts[slot + p.last] - p.last : slot]));
      else
        w = S::pair(slot == 0 ? Key(0) : key_in<S, K>(p.to, p.keys, slot * child), Key(below_first + slot));
      store_relaxed(slot_of<S>(p.to, id, lane), w);
    }
    if (lane == kBulkLanes - 1) {
      const bool more = id != 0 && j + 1 < at.size;
      const uint64_t high = more ? key_in<S, K>(p.to, p.keys, (j + 1) * at.span) : Key(0);
      store_relaxed(node_of<S>(p.to, id), {high, uint64_t(state_of(at.level, uint32_t(to - from))) << 32 | uint32_t(more ? id + 1 : kNone)});
    }
  }
  if (thread_index() == 0) *control_of(p.to) = {{n, n}, uint32_t(nodes), 0, 0, 0};
}

struct SweepParams {
  Tree tree;
  uint32_t* freed;  // capacity for all dead and free nodes
  uint32_t* count;  // zero before the launch
};

// sweep makes dead nodes free and lists all free nodes. No reader may run meanwhile.
template <class S>
__device__ __forceinline__ void sweep(const SweepParams& p) {
  const uint32_t n = given(p.tree);
  for (uint64_t id = thread_index(); id < n; id += threads_in_grid()) {
    if (!(*state_word<S>(p.tree, id) >> 32 & kDead)) continue;
    *state_word<S>(p.tree, id) = uint64_t(kDead | kFreeLevel << kLevelShift) << 32 | kNone;
    p.freed[add_relaxed(p.count, 1u)] = id;
  }
}

struct AccountParams {
  Control* control;
  Account* account;
};

struct AddParams {
  const Control* control;
  uint64_t* to;
  uint32_t negate;
  uint32_t unused;
};

}  // namespace weft::btree

// ---- entry points ----------------------------------------------------------------

using namespace weft;
using namespace weft::btree;
WEFT_WIDTHS;

WEFT_KERNEL(btree_get, 5)(GetParams p) {
  weft::btree::get<S, K, V>(p, [](const auto&, uint32_t, uint32_t) {});
}
WEFT_KERNEL(btree_seek, 3)(SeekParams p) {
  weft::btree::seek<S, K, V>(p, [&] { return Now<S>{p.tree}; });
}
WEFT_KERNEL(btree_collect, 4)(CollectParams p) { collect<S>(p); }
WEFT_KERNEL(btree_sizes, 4)(SizesParams p) { sizes<S>(p); }
WEFT_KERNEL(btree_places, 4)(PlaceParams p) { places<S, K, V>(p); }
WEFT_KERNEL(btree_rows, 4)(RowsParams p) { rows<S, K, V>(p); }
WEFT_KERNEL(btree_copy, 4)(CopyParams p) { copy_pairs<S, K, V>(p); }
WEFT_KERNEL(btree_settle, 4)(SettleParams p) { settle<V>(p); }
WEFT_KERNEL(btree_together, 4)(ChangeParams p) { together<S, K, V>(p); }
WEFT_KERNEL(btree_adopt, 4)(AdoptParams p) { adopt<S, V>(p); }
WEFT_KERNEL(btree_change, 2)(ChangeParams p) { weft::btree::change<S, K, V>(p); }
WEFT_KERNEL(btree_keep, 4)(KeepParams p) { keep<S>(p); }
// With eight blocks per multiprocessor, writing nodes with 32-bit keys and values takes 0.87 times
// as long as with four (H200; lab/results/2026-11-26-h200/btree-builds.txt). Eight blocks were not
// tried with 64 bits.
WEFT_KERNEL(btree_bulk, sizeof(S::Word) == 8 ? 8 : 4)(BulkParams p) { bulk<S, K, V>(p); }
WEFT_KERNEL(btree_sweep, 4)(SweepParams p) { sweep<S>(p); }
WEFT_KERNEL(btree_swept, 1)(SweepParams p) {
  if (thread_index() != 0) return;
  Control* c = control_of(p.tree);
  const uint32_t n = given(p.tree);
  *c = {c->counters, n, *p.count, 0, 0};
}
// btree_account adds the changes of users' kernels to the counters. It runs after these kernels.
WEFT_KERNEL(btree_account, 1)(AccountParams p) {
  if (thread_index() == 0) settle(p.control->counters, *p.account);
}
WEFT_KERNEL(btree_add, 1)(AddParams p) {
  if (thread_index() != 0) return;
  add(p.to, p.control->counters.live, p.negate);
}
