// What a change takes, and how it begins: the operations on each key are settled, and what becomes of the windows is planned.
#pragma once

#include "plan.cuh"
#include "seek.cuh"
#include "weft/lookback.cuh"
#include "weft/sums.cuh"

namespace weft::ordered {

// Hot is a leaf with many operations, whose entries are written by threads of their own.
struct Hot {
  Split split;
  uint32_t at;  // pairs of its group that come before those of the leaf
  uint32_t out, fresh;
  uint64_t separator;
};

// Leaves are how many of the new index windows come to, and how many of these are written.
struct alignas(8) Leaves {
  uint32_t out, fresh;
};

// An entry is a key that a batch has operations on.
struct ChangeParams {
  Index old, to;
  // The batch, sorted.
  const void* keys;        // of entries, as columns have them
  const uint32_t* order;   // rows; null: all are Puts that report nothing, and the values are sorted, too
  const uint32_t* starts;  // of the rows of each entry in order, and the end
  const uint32_t* count;   // of entries
  const void* vals;
  const uint8_t* kinds;
  void* out;
  uint8_t* ok;
  // What is known of each entry, written once.
  void* entry_vals;   // the value that it has then
  uint32_t* leaves;   // that it belongs to; kNoLeaf behind the last entry
  uint32_t* deltas;   // by how many the number of pairs changes
  uint8_t* infos;     // Info
  uint32_t* sums;     // of the deltas before, modulo 2^32
  // The leaves that have entries, and the first of these.
  const uint32_t* touched;
  const uint32_t* firsts;
  const uint32_t* touches;
  // What becomes of windows, written once.
  uint32_t* first_touched;  // of the leaves that have entries, and how many these are
  uint32_t* begins;         // see Totals
  Leaves* before;           // leaves of all windows before, and, last, of all
  uint64_t* status;         // of sums over windows, a word for each block
  uint32_t* next;           // the first block of windows that nobody has begun to plan
  uint32_t* any_hot;        // 1: a leaf is hot
  Hot* hot;
  uint32_t* node_sums;  // pairs below each node of the new index
  // Instead of a batch: pairs that go.
  const Gap* gaps;
  uint64_t gap_count;
  // Memory.
  const uint32_t* free;  // leaves, of which so many have been taken
  uint32_t* taken;
  uint32_t n;  // rows
  uint32_t windows;  // of the old index, at most
  uint32_t fill;
  uint32_t kind;
  uint32_t flags;
  uint32_t unused;
};

constexpr uint32_t kNoLeaf = ~0u;
constexpr uint32_t kHotEntries = 128;  // of a leaf that is hot there are more

enum Info : uint8_t { kPlace = 63, kWas = 64, kWillBe = 128 };  // kPlace: how many keys of the leaf are smaller

// ---- settling ------------------------------------------------------------------

// settled writes what is known of an entry, which had a pair or not, and has one then or not. One whose pair stays what it is is
// none of its leaf.
template <class V>
__device__ __forceinline__ void settled(const ChangeParams& p, uint64_t e, uint32_t leaf, uint32_t at, bool was, const Slot<V>& s) {
  store_once(static_cast<V*>(p.entry_vals) + e, s.val);
  store_once(p.leaves + e, leaf);
  store_once(p.deltas + e, uint32_t(s.there) - uint32_t(was));
  const bool same = was && s.there && !s.stored;
  p.infos[e] = at | (was && !same ? kWas : 0) | (s.there && !same ? kWillBe : 0);
}

// no_entry writes that there is no such entry.
__device__ __forceinline__ void no_entry(const ChangeParams& p, uint64_t e) { p.leaves[e] = kNoLeaf, p.deltas[e] = 0; }

// takes_old tells whether an operation looks at the value that its key has.
__device__ __forceinline__ bool takes_old(const ChangeParams& p, uint32_t row) {
  const uint32_t kind = p.kinds ? p.kinds[row] : p.kind;
  return kind != kPut && kind != kDelete && kind != kUpdate;
}

// settle runs the operations of each key in their order, a key per thread. The lanes of a warp look for their keys side
// by side. What is read or written in order, or once, passes through the L2 and leaves it to the rows, which lie at random places.
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

// settle_puts does so where all are Puts that report nothing, by threads that need few registers each.
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

// first_of is the first of the leaves with entries that is not before a leaf.
__device__ __forceinline__ uint32_t first_of(const ChangeParams& p, uint32_t touches, uint64_t leaf) {
  return first<uint32_t>(0, touches, [&](uint32_t t) { return p.touched[t] >= leaf; });
}

// Gone is how many pairs go of those before one, and whether that one goes.
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

// Leaves are added up as one number, with two bits to spare.
constexpr uint32_t kLeafBits = 31;
__device__ __forceinline__ uint64_t packed(Leaves l) { return l.out | uint64_t(l.fresh) << kLeafBits; }
__device__ __forceinline__ Leaves unpacked(uint64_t sum) { return {uint32_t(sum) & ((1u << kLeafBits) - 1), uint32_t(sum >> kLeafBits)}; }

constexpr uint32_t kWindows = kWarp / kFanout;        // windows that a warp has a leaf per lane of
static_assert(kWindows * kFanout == kWarp);
constexpr uint32_t kPlanned = 16;                     // windows that a warp plans
constexpr uint32_t kTileWindows = kPlanned * kWarps;  // and a block

// plan_gaps works out how many leaves a window comes to that pairs go from.
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

// Planned is a leaf of two windows: how many pairs it will have, whether it has entries, and whether these may change it.
struct Planned {
  uint32_t now;
  bool touched, changes;
};

// changes tells whether entries change their leaf: Puts do, and where they are many, they may. Some are read at once: few leaves
// have more.
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

// plan_pair works out how many leaves two windows come to, of whose leaves the lane has one: those of its window. from, to: the
// leaves with entries that are theirs.
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
  // A leaf with entries that has no few pairs then is a group, as is each other leaf, if none waits for more pairs.
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

// plan works out what each window comes to, and those before it. A lane of each warp has a window; without gaps, all plan two at a time.
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
