// The parameters of a change, and its first kernels. These kernels resolve the operations
// on each key, and plan the new leaves of each window: the leaves below one node.
#pragma once

#include "plan.cuh"
#include "seek.cuh"
#include "weft/lookback.cuh"
#include "weft/sums.cuh"

namespace weft::ordered {

// Hot is a leaf with many operations. Separate threads write its entries.
struct Hot {
  Split split;
  uint32_t at;  // number of pairs of the group before this leaf's pairs
  uint32_t out, fresh;
  uint64_t separator;
};

// Leaves counts leaves for some windows: all leaves of the new index, and the leaves to write among
// them.
struct alignas(8) Leaves {
  uint32_t out, fresh;
};

// ChangeParams describes a change. An entry is a key that has operations in a batch.
struct ChangeParams {
  Index old, to;
  // The batch, sorted.
  const void* keys;        // key of each entry, as in columns
  const uint32_t* order;   // rows; null: all are Puts that report nothing, with sorted values
  const uint32_t* starts;  // first row of each entry in order, and the end
  const uint32_t* count;   // number of entries
  const void* vals;
  const uint8_t* kinds;
  void* out;
  uint8_t* ok;
  // Results for each entry, written once.
  void* entry_vals;   // value after the change
  uint32_t* leaves;   // leaf of the key; kNoLeaf after the last entry
  uint32_t* deltas;   // change of the number of pairs
  uint8_t* infos;     // Info
  uint32_t* sums;     // sums of the earlier deltas, modulo 2^32
  // The leaves that have entries, and the first entry of each.
  const uint32_t* touched;
  const uint32_t* firsts;
  const uint32_t* touches;
  // Plans of windows, written once.
  uint32_t* first_touched;  // per window: its first leaf with entries; then their total
  uint32_t* begins;         // see Totals
  Leaves* before;           // leaves of all earlier windows; last: leaves of all windows
  uint64_t* status;         // status of the sums over windows (lookback.cuh), one word per block
  uint32_t* next;           // next block of windows to plan
  uint32_t* any_hot;        // 1: a leaf is hot
  Hot* hot;
  uint32_t* node_sums;  // number of pairs below each node of the new index
  // Instead of a batch: pairs to remove.
  const Gap* gaps;
  uint64_t gap_count;
  // Memory.
  const uint32_t* free;  // free leaves; the first *taken are in use
  uint32_t* taken;
  uint32_t n;  // number of rows
  uint32_t windows;  // maximum number of windows in the old index
  uint32_t fill;
  uint32_t kind;
  uint32_t flags;
  uint32_t unused;
};

constexpr uint32_t kNoLeaf = ~0u;
constexpr uint32_t kHotEntries = 128;  // a hot leaf has more entries

// kPlace masks the number of smaller keys in the leaf.
enum Info : uint8_t { kPlace = 63, kWas = 64, kWillBe = 128 };

// ---- settling ------------------------------------------------------------------

// settled records the result for an entry: its value, its place, and whether the key has a pair
// before and after. An entry that leaves its pair unchanged has neither flag, and does not count
// for its leaf.
template <class V>
__device__ __forceinline__ void settled(const ChangeParams& p, uint64_t e, uint32_t leaf, uint32_t at, bool was, const Slot<V>& s) {
  store_once(static_cast<V*>(p.entry_vals) + e, s.val);
  store_once(p.leaves + e, leaf);
  store_once(p.deltas + e, uint32_t(s.there) - uint32_t(was));
  const bool same = was && s.there && !s.stored;
  p.infos[e] = at | (was && !same ? kWas : 0) | (s.there && !same ? kWillBe : 0);
}

// no_entry records that entry e does not exist.
__device__ __forceinline__ void no_entry(const ChangeParams& p, uint64_t e) { p.leaves[e] = kNoLeaf, p.deltas[e] = 0; }

// takes_old reports whether an operation reads the old value of its key.
__device__ __forceinline__ bool takes_old(const ChangeParams& p, uint32_t row) {
  const uint32_t kind = p.kinds ? p.kinds[row] : p.kind;
  return kind != kPut && kind != kDelete && kind != kUpdate;
}

// settle runs the operations of each key in order, one key per thread. The lanes of a warp search
// at the same time. Data that is accessed in order, or once, does not stay in the L2 cache. So the
// cache keeps its space for the rows, which lie at random places.
template <class K, class V>
__device__ __forceinline__ void settle(const ChangeParams& p) {
  const uint32_t leaves = p.old.content->leaves, count = *p.count;
  const Tile<K> tile;
  for (uint64_t first = thread_index() - tile.lane; first < p.n; first += threads_in_grid()) {
    const uint64_t e = first + tile.lane;
    uint32_t from = 0, to = 0;
    bool reads = false;
    if (e < count) {
      from = load_once(p.starts + e), to = load_once(p.starts + e + 1);
      reads = to - from > 1 || takes_old(p, load_once(p.order + from));
    }
    Spot at{};
    const K key = e < count ? K(load_once(static_cast<const K*>(p.keys) + e) ^ K(p.old.flip)) : ~K(0);
    if (leaves != 0 && first < count) at = spot<K, V>(p.old, tile, leaves, key, Levels<K>(p.old), 0);
    if (e < count) {
      Slot<V> s{at.same, 0};
      if (at.same && reads) s.val = load_weak(leaf_at<K, V>(p.old, p.old.ids[at.place.leaf])->vals + at.place.at, evict_first());
      run_all(p, from, to, s);
      settled(p, e, at.place.leaf, at.place.at, at.same, s);
    } else if (e < p.n) {
      no_entry(p, e);
    }
  }
}

// settle_puts is settle for batches of Puts that report nothing. Its threads need few registers.
template <class K, class V>
__device__ __forceinline__ void settle_puts(const ChangeParams& p) {
  const uint32_t leaves = p.old.content->leaves, count = *p.count;
  for (uint64_t e = thread_index(); e < p.n; e += threads_in_grid()) {
    if (e >= count) {
      no_entry(p, e);
      continue;
    }
    uint32_t leaf = 0, at = 0;
    bool was = false;
    if (leaves != 0) {
      const K key = key_in<K>(p.keys, e, p.old.flip);
      leaf = leaf_of(p.old, leaves - 1, key);
      const Leaf<K, V>* of = leaf_at<K, V>(p.old, p.old.ids[leaf]);
      const uint32_t size = p.old.sizes[leaf];
      at = lower(of, size, key);
      was = at < size && of->keys[at] == key;
    }
    const uint32_t last = p.starts[e + 1] - 1;
    settled(p, e, leaf, at, was, Slot<V>{true, static_cast<const V*>(p.vals)[p.order ? p.order[last] : last], true});
  }
}

// ---- planning --------------------------------------------------------------------

// first_of returns the index of the first leaf with entries that does not come before `leaf`.
__device__ __forceinline__ uint32_t first_of(const ChangeParams& p, uint32_t touches, uint64_t leaf) {
  return first<uint32_t>(0, touches, [&](uint32_t t) { return p.touched[t] >= leaf; });
}

// Gone is the number of removed pairs before a pair, and whether the pair itself is removed.
struct Gone {
  uint64_t before;
  bool itself;
};
__device__ __forceinline__ Gone gone(const ChangeParams& p, uint64_t pair) {
  const uint64_t behind = first<uint64_t>(0, p.gap_count, [&](uint64_t g) { return p.gaps[g].from > pair; });
  if (behind == 0) return {0, false};
  const Gap g = p.gaps[behind - 1];
  if (pair < g.to) return {g.before + pair - g.from, true};
  return {g.before + g.to - g.from, false};
}

// Sums add both counts of Leaves as one number. Two of its bits stay free (lookback.cuh).
constexpr uint32_t kLeafBits = 31;
__device__ __forceinline__ uint64_t packed(Leaves l) { return l.out | uint64_t(l.fresh) << kLeafBits; }
__device__ __forceinline__ Leaves unpacked(uint64_t sum) { return {uint32_t(sum) & ((1u << kLeafBits) - 1), uint32_t(sum >> kLeafBits)}; }

constexpr uint32_t kWindows = kWarp / kFanout;        // windows with one leaf per lane of a warp
static_assert(kWindows * kFanout == kWarp);
constexpr uint32_t kPlanned = 16;                     // number of windows that a warp plans
constexpr uint32_t kTileWindows = kPlanned * kWarps;  // number of windows that a block plans

// plan_gaps returns the number of leaves for a window that loses pairs.
__device__ __forceinline__ Leaves plan_gaps(const ChangeParams& p, uint32_t w, uint32_t leaves) {
  uint64_t leaf = uint64_t(w) * kFanout, pair = p.old.ranks[w];
  const uint64_t end = leaf + kFanout < leaves ? leaf + kFanout : leaves;
  Totals totals;
  Planner planner{totals, p.fill};
  for (uint32_t i = 0; leaf < end; i++, leaf++) {
    const uint32_t size = p.old.sizes[leaf], now = size - uint32_t(gone(p, pair + size).before - gone(p, pair).before);
    planner.visit(i, now, false, now != size);
    pair += size;
  }
  planner.flush(true);
  p.begins[w] = totals.begins;
  return {totals.out, totals.fresh};
}

// Planned is a leaf of two windows: its new number of pairs, whether it has entries, and whether
// its entries may change it.
struct Planned {
  uint32_t now;
  bool touched, changes;
};

// changes reports whether entries change their leaf. Puts always do, and a large number of entries
// is assumed to. Several entries are read at a time, because few leaves have more.
__device__ __forceinline__ bool changes(const ChangeParams& p, uint32_t entry, uint32_t end) {
  constexpr uint32_t kInfos = 4;
  if (!p.order || end - entry > kWarp) return true;
  uint32_t all = 0;
  for (; entry < end; entry += kInfos) {
#pragma unroll
    for (uint32_t i = 0; i < kInfos; i++) all |= entry + i < end ? p.infos[entry + i] : 0u;
  }
  return (all & (kWas | kWillBe)) != 0;
}

// plan_pair plans two windows. Each lane has one leaf of these windows. It returns the packed
// counts of leaves for the lane's window. [from,to) are the leaves with entries in both windows.
__device__ __forceinline__ uint64_t plan_pair(const ChangeParams& p, uint32_t w, uint32_t leaves, uint32_t from, uint32_t to, Planned* planned) {
  const uint32_t lane = lane_index(), window = lane & ~(kFanout - 1);
  const uint64_t leaf = uint64_t(w) * kFanout + lane;
  sync_warp();
  planned[lane] = {leaf < leaves ? p.old.sizes[leaf] : 0u, false, false};
  sync_warp();
  if (from + lane < to) {
    const uint32_t t = from + lane, first = p.firsts[t], end = p.firsts[t + 1];
    const uint32_t grows = p.sums[end] - p.sums[first];
    const bool becomes_another = changes(p, first, end);
    Planned& l = planned[p.touched[t] % kWarp];
    l.now += grows, l.touched = true, l.changes = becomes_another;
    if (end - first > kHotEntries) store_relaxed(p.any_hot, 1u);
  }
  sync_warp();
  const Planned& own = planned[lane];
  // A leaf with entries is a group by itself if enough pairs remain. So is every other leaf, unless
  // few earlier pairs wait for more.
  const uint32_t few = ballot(kAll, own.touched && own.now != 0 && own.now < kFew) >> window & ((1u << kFanout) - 1);
  const uint32_t there = ballot(kAll, own.now != 0), kept = ballot(kAll, own.now != 0 && !own.changes);
  const uint32_t count = own.now == 0 ? 0 : own.touched ? leaves_for(own.now, p.fill) : 1;
  uint64_t sum = packed({count, own.changes ? count : 0});
#pragma unroll
  for (uint32_t d = 1; d < kFanout; d *= 2) sum += shuffle_xor(kAll, sum, d);
  uint32_t begins = (there >> window & ((1u << kFanout) - 1)) | kept >> window << kFanout;
  if (few != 0) {
    Totals totals;
    Planner planner{totals, p.fill};
    for (uint32_t i = 0; i < kFanout; i++) {
      const Planned& l = planned[window + i];
      planner.visit(i, l.now, l.touched, l.changes);
    }
    planner.flush(true);
    sum = packed({totals.out, totals.fresh}), begins = totals.begins;
  }
  const uint32_t mine = w + lane / kFanout;
  if (lane == window && mine < p.windows) p.begins[mine] = begins;
  return sum;
}

// plan counts the leaves of each window, and of all windows before it. In each warp, each of the
// first kPlanned lanes has a window. Without gaps, all lanes together plan two windows at a time.
template <bool kGaps>
__device__ __forceinline__ void plan(const ChangeParams& p) {
  __shared__ prim::Tiles tiles;
  __shared__ uint64_t sums[kWarps];
  __shared__ Planned all[kWarps][kWarp];
  const uint32_t lane = lane_index(), warp = thread_in_block() / kWarp, leaves = p.old.content->leaves, touches = kGaps || leaves == 0 ? 0 : *p.touches;
  const uint32_t tile = prim::begin_tile(&tiles, p.next), first = tile * kTileWindows + warp * kPlanned, w = first + lane;
  uint64_t own = 0;
  if constexpr (kGaps) {
    if (lane < kPlanned && w < p.windows) own = packed(plan_gaps(p, w, leaves));
  } else {
    const uint32_t t = lane <= kPlanned ? first_of(p, touches, uint64_t(w) * kFanout) : 0;
    if (lane < kPlanned && w <= p.windows) p.first_touched[w] = t;
    for (uint32_t i = 0; i < kPlanned; i += kWindows) {
      const uint64_t both = plan_pair(p, first + i, leaves, shuffle(kAll, t, i), shuffle(kAll, t, i + kWindows), all[warp]);
      const uint64_t sum = shuffle(kAll, both, (lane - i) % kWindows * kFanout);
      if (lane - i < kWindows) own = sum;
    }
  }
  const uint64_t upto = running(own);
  uint64_t total;
  const uint64_t before = prim::block_before<kWarps>(&tiles, shared(sums), p.status, tile, shuffle(kAll, upto, kWarp - 1), total);
  if (lane < kPlanned && w <= p.windows) p.before[w] = unpacked(before + upto - own);
}

}  // namespace weft::ordered
