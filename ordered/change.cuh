// The last kernels of a change. They write new leaves for the leaves with operations, as planned,
// and a new index. The old leaves and the old index do not change.
#pragma once

#include "settle.cuh"

namespace weft::ordered {

// ---- writing ----------------------------------------------------------------------

// Writer writes pairs to new leaves, and lines of the new index.
template <class K, class V>
struct Writer {
  const ChangeParams& p;
  K* seps;         // separators of the lowest level
  uint32_t taken;  // number of leaves taken before this launch

  __device__ __forceinline__ explicit Writer(const ChangeParams& p) : p(p), seps(lowest_level<K>(p.to)), taken(*p.taken) {}

  // line writes a line of the index. The first leaf covers all keys before the second leaf.
  __device__ __forceinline__ void line(uint32_t at, K separator, uint32_t id, uint32_t size) const {
    seps[at] = at == 0 ? K(0) : separator;
    p.to.ids[at] = id;
    p.to.sizes[at] = size;
  }

  // put writes a pair to a slot of a group's new leaves. The leaves begin at `out` in the new
  // index, and at `fresh` among the free leaves. The writer of a leaf's first pair writes the
  // leaf's line in the index. The writer of the last pair repeats that pair's key.
  __device__ __forceinline__ void put(uint32_t out, uint32_t fresh, K separator, Place to, uint32_t size, K key, V val) const {
    const uint32_t id = p.free[taken + fresh + to.leaf];
    Leaf<K, V>* leaf = leaf_at<K, V>(p.to, id);
    leaf->keys[to.at] = key;
    leaf->vals[to.at] = val;
    if (to.at == 0) line(out + to.leaf, to.leaf == 0 ? separator : key, id, size);
    if (to.at + 1 == size)
      for (uint32_t i = size; i < kPairs; i++) leaf->keys[i] = key;
  }
};

// Source is an old leaf, and the destination of its pairs.
template <class K, class V>
struct Source {
  const Leaf<K, V>* from;
  Leaf<K, V>* to;       // new leaf, if all its pairs come from this leaf
  // Bits of the new pairs that come from entries. They are used if the new leaves have no pairs of
  // other leaves.
  uint64_t comes;
  uint32_t goes;        // bits of the slots in `from` with pairs that do not stay
  uint32_t stays;       // bits of the entries that have a pair afterward
  uint32_t entry, end;  // entries [entry,end) have keys of the leaf
  uint32_t id, size;
  Split split;          // layout of the group's pairs
  uint32_t at;          // number of the group's pairs before this leaf's pairs
  uint32_t out, fresh;  // first leaf of the group in the new index, and among the free leaves
  K separator;          // separator of the group
};

// kAtOnce is the number of leaves that a warp reads before it writes one of them. It is four with 8
// bytes per pair, and two with larger pairs, because registers are scarce.
template <class K, class V>
constexpr uint32_t kAtOnce = sizeof(K) + sizeof(V) > 8 ? 2 : 4;

// kFetched is the number of leaves that a warp prefetches, including the leaves that it reads at
// once. If a warp prefetched all leaves, most would leave the L2 cache before they are read.
constexpr uint32_t kFetched = 12;

// Before has the counts before a window: leaves of the new index, leaves to write among them, and
// leaves with entries.
struct Before {
  uint32_t out, fresh, touched;
};
template <bool kGaps>
__device__ __forceinline__ Before before_window(const ChangeParams& p, uint32_t w) {
  const Leaves before = p.before[w];
  return {before.out, before.fresh, kGaps ? 0 : p.first_touched[w]};
}

// stays reports whether a window with this number of leaves stays as it is.
__device__ __forceinline__ bool stays(const ChangeParams& p, uint32_t w, uint32_t leaves) {
  const Leaves from = p.before[w], to = p.before[w + 1];
  return to.fresh == from.fresh && to.out - from.out == leaves;
}

// settle_slots marks the new pairs of a leaf. The leaf has no more entries than a warp has lanes.
// settle_slots returns the number of new pairs, which is at most the number of bits.
template <class K, class V>
__device__ __forceinline__ uint32_t settle_slots(const ChangeParams& p, Source<K, V>& s) {
  uint32_t grown = 0;
  for (uint32_t e = s.entry; e < s.end; e++) {
    const uint32_t info = p.infos[e], place = info & kPlace, was = info / kWas & 1, will_be = info / kWillBe;
    s.comes |= uint64_t(will_be) << (place + grown);
    s.goes |= was << (place & (kPairs - 1));
    s.stays |= will_be << (e - s.entry);
    grown += will_be - was;
  }
  return s.size + grown;
}

// read finds the entries of n leaves, one leaf per lane. The leaves belong to adjacent windows. It
// returns the number of pairs that the lane's leaf will have. from has the counts before these
// windows, and to has the counts before their end.
template <class K, class V, bool kGaps>
__device__ __forceinline__ uint32_t read(const ChangeParams& p, uint32_t leaf, uint32_t n, Before from, Before to,
                                         Source<K, V>* sources, Source<K, V>& s) {
  const uint32_t lane = lane_index();
  if constexpr (kGaps) {
    if (lane >= n) return 0;
    const uint64_t pair = before(p.old, leaf);
    return s.size - uint32_t(gone(p, pair + s.size).before - gone(p, pair).before);
  }
  sources[lane].entry = sources[lane].end = 0;
  sync_warp();
  const uint32_t t = from.touched + lane;
  if (t < to.touched) {
    Source<K, V>& touched = sources[p.touched[t] % kWarp];
    touched.entry = p.firsts[t], touched.end = p.firsts[t + 1];
  }
  sync_warp();
  s.entry = sources[lane].entry, s.end = sources[lane].end;
  if (s.entry == s.end) return s.size;
  s.from = leaf_at<K, V>(p.old, s.id);
  return s.end - s.entry > kWarp ? s.size + p.sums[s.end] - p.sums[s.entry] : settle_slots(p, s);
}

// arrange finds the destination of each leaf's pairs in adjacent windows, from the planned groups.
// begins has the groups of the lane's window (see Totals), and start has the counts before the
// windows. last is set if no window follows. arrange reports whether the leaf stays as it is.
template <class K, class V>
__device__ __forceinline__ bool arrange(const ChangeParams& p, Before start, uint32_t n, bool last, uint32_t begins,
                                        Source<K, V>& s, uint32_t now) {
  const uint32_t lane = lane_index(), at = lane % kFanout, window = lane - at;
  const uint32_t heads = begins & ((1u << kFanout) - 1), upto = (2u << at) - 1, mine = heads & upto, others = heads & ~upto;
  const uint32_t head = mine ? highest(mine) : at, next = others ? lowest(others) : kFanout;
  const bool kept = begins >> (kFanout + head) & 1, first = heads >> at & 1;
  const uint32_t with_own = running(now), before = with_own - now, from = shuffle(kAll, before, window + head);
  s.split.pairs = shuffle(kAll, with_own, window + next - 1) - from;
  s.split.leaves = kept ? 1 : leaves_for(s.split.pairs, p.fill);
  // Keys that are added after all other keys leave full leaves.
  const bool added = shuffle(kAll, uint32_t(s.entry != s.end && now != 0), n - 1);
  const bool grows = added && last && window == (n - 1) / kFanout * kFanout && others == 0;
  s.split.full = grows && s.split.leaves > 1 ? p.fill : 0;
  s.at = before - from;
  const uint32_t out = first ? s.split.leaves : 0, fresh = kept ? 0 : out;
  s.out = start.out + shuffle(kAll, running(out) - out, window + head);
  s.fresh = start.fresh + shuffle(kAll, running(fresh) - fresh, window + head);
  s.separator = shuffle(kAll, s.separator, window + head);
  return kept;
}

// Shift is how far a pair of a leaf moves, and whether the pair is written.
struct Shift {
  uint32_t by;
  bool stays;
};

// shift_of returns the shift of a pair. Entries with smaller keys move the pair, and an entry with
// its key replaces it.
template <bool kGaps>
__device__ __forceinline__ Shift shift_of(const ChangeParams& p, uint32_t leaf, uint32_t slot, uint32_t entry, uint32_t end) {
  if constexpr (kGaps) {
    const uint64_t first = before(p.old, leaf);
    const Gone g = gone(p, first + slot);
    return {uint32_t(gone(p, first).before - g.before), !g.itself};
  }
  uint32_t lo = entry, hi = end;
  while (lo < hi) {  // finds the first entry that does not come before the pair
    const uint32_t mid = lo + (hi - lo) / 2, info = p.infos[mid];
    if ((info & kPlace) + (info & kWas ? 1 : 0) <= slot) lo = mid + 1;
    else hi = mid;
  }
  const bool replaced = lo < end && (p.infos[lo] & (kPlace | kWas)) == (slot | kWas);
  return {p.sums[lo] - p.sums[entry], !replaced};
}

// put_entry writes the pair of an entry of a leaf. `first` is the leaf's first entry.
template <class K, class V>
__device__ __forceinline__ void put_entry(const Writer<K, V>& writer, uint32_t e, uint32_t first, const Split& split, uint32_t at,
                                          uint32_t out, uint32_t fresh, K separator) {
  const ChangeParams& p = writer.p;
  const uint32_t info = p.infos[e];
  if (!(info & kWillBe)) return;
  const Place to = split.place(at + (info & kPlace) + p.sums[e] - p.sums[first]);
  const K key = key_in<K>(p.keys, e, p.old.flip);
  writer.put(out, fresh, separator, to, split.size(to.leaf), key, static_cast<const V*>(p.entry_vals)[e]);
}

// write_leaf writes the pairs of a leaf to their destinations.
template <class K, class V, bool kGaps>
__device__ __forceinline__ void write_leaf(const Writer<K, V>& writer, uint32_t leaf, const Source<K, V>& s) {
  const ChangeParams& p = writer.p;
  const uint32_t lane = lane_index();
  if (lane < s.size) {
    const Leaf<K, V>* from = leaf_at<K, V>(p.old, s.id);
    const K key = from->keys[lane];
    const V val = from->vals[lane];
    const Shift shift = shift_of<kGaps>(p, leaf, lane, s.entry, s.end);
    if (shift.stays) {
      const Place to = s.split.place(s.at + lane + shift.by);
      writer.put(s.out, s.fresh, s.separator, to, s.split.size(to.leaf), key, val);
    }
  }
  if constexpr (kGaps) return;
  if (s.end - s.entry > kHotEntries) {
    if (lane == 0) p.hot[s.entry / kHotEntries] = {s.split, s.at, s.out, s.fresh, s.separator};
    return;
  }
  for (uint32_t e = s.entry + lane; e < s.end; e += kWarp)
    put_entry(writer, e, s.entry, s.split, s.at, s.out, s.fresh, s.separator);
}

// Held is the pair for one slot of a new leaf. A lane holds it.
template <class K, class V>
struct Held {
  Leaf<K, V>* to;
  K key;
  V val;
};

// pair_of reads a pair of a new leaf from its source, which is the old leaf or an entry.
template <class K, class V>
__device__ __forceinline__ Held<K, V> pair_of(const ChangeParams& p, const Source<K, V>& s, uint32_t pair) {
  const uint64_t behind = s.comes & ((1ull << pair) - 1);
  const uint32_t before = popcount(uint32_t(behind)) + popcount(uint32_t(behind >> 32));
  const bool comes = s.comes >> pair & 1;
  uint32_t at = pair - before;  // index among the pairs that stay
  for (uint32_t goes = s.goes; goes != 0; goes &= goes - 1) at += lowest(goes) <= at;
  const uint32_t e = s.entry + (s.stays & (s.stays + 1) ? select(s.stays, before) : before);
  const K* key = comes ? static_cast<const K*>(p.keys) + e : s.from->keys + at;
  const V* val = comes ? static_cast<const V*>(p.entry_vals) + e : s.from->vals + at;
  return {s.to, K(*key ^ (comes ? K(p.old.flip) : K(0))), *val};
}

// write_simply writes leaves that become one leaf each. `which` has one bit per leaf. Several
// leaves are read before one is written, because the compiler must assume that a store may alias a
// later read. Lines are written as a whole.
template <class K, class V>
__device__ __forceinline__ void write_simply(const ChangeParams& p, uint32_t which, const Source<K, V>* sources) {
  const uint32_t lane = lane_index();
  // number of leaves in `which` before this lane's leaf, which the lane prefetches
  uint32_t behind = popcount(which & ((1u << lane) - 1));
  bool fetches = which >> lane & 1;
  while (which != 0) {
    if (fetches && behind < kFetched) {
      fetch(sources[lane].from->keys), fetch(sources[lane].from->vals);
      fetches = false;
    }
    behind -= kAtOnce<K, V>;
    Held<K, V> held[kAtOnce<K, V>];
    uint32_t n = 0;
#pragma unroll
    for (uint32_t q = 0; q < kAtOnce<K, V>; q++) {
      if (which == 0) break;
      const Source<K, V>& s = sources[lowest(which)];
      held[q] = pair_of(p, s, lane < s.split.pairs ? lane : s.split.pairs - 1);
      n++, which &= which - 1;
    }
#pragma unroll
    for (uint32_t q = 0; q < kAtOnce<K, V>; q++) {
      if (q >= n) break;
      held[q].to->keys[lane] = held[q].key;
      held[q].to->vals[lane] = held[q].val;
    }
  }
}

// write_split writes leaves that become several leaves each. It also writes the index lines of the
// new leaves, except for the first one.
template <class K, class V>
__device__ __forceinline__ void write_split(const Writer<K, V>& writer, uint32_t which, const Source<K, V>* sources) {
  constexpr uint32_t kParts = 2;  // number of leaves that are read before one is written
  const ChangeParams& p = writer.p;
  const uint32_t lane = lane_index();
  for (; which != 0; which &= which - 1) {
    const Source<K, V>& s = sources[lowest(which)];
    for (uint32_t part = 0, first = 0; part < s.split.leaves; part += kParts) {
      Held<K, V> held[kParts];
      uint32_t id[kParts], size[kParts];
#pragma unroll
      for (uint32_t q = 0; q < kParts; q++) {
        if (part + q == s.split.leaves) break;
        id[q] = p.free[writer.taken + s.fresh + part + q], size[q] = s.split.size(part + q);
        held[q] = pair_of(p, s, first + (lane < size[q] ? lane : size[q] - 1));
        first += size[q];
      }
#pragma unroll
      for (uint32_t q = 0; q < kParts; q++) {
        if (part + q == s.split.leaves) break;
        Leaf<K, V>* to = leaf_at<K, V>(p.to, id[q]);
        to->keys[lane] = held[q].key;
        to->vals[lane] = held[q].val;
        if (lane == 0 && part + q != 0) writer.line(s.out + part + q, held[q].key, id[q], size[q]);
      }
    }
  }
}

// write writes the new index, several windows per warp, and the leaves that are not kept.
template <class K, class V, bool kGaps>
__device__ __forceinline__ void write(const ChangeParams& p) {
  __shared__ Source<K, V> windows[kWarps][kWarp];
  const uint32_t warp = thread_in_block() / kWarp, lane = lane_index();
  Source<K, V>* sources = windows[warp];
  const Writer<K, V> writer(p);
  const uint32_t leaves = p.old.content->leaves;
  for (uint64_t i = thread_index() / kWarp; i * kWarp < leaves; i += threads_in_grid() / kWarp) {
    const uint32_t w = i * kWindows, first = i * kWarp, n = leaves - first < kWarp ? leaves - first : kWarp;
    const uint32_t at = lane - lane % kFanout, mine = w + lane / kFanout, there = at < n ? (n - at < kFanout ? n - at : kFanout) : 0;
    // Values that depend on no other read are read first.
    const Before from = before_window<kGaps>(p, w), to = before_window<kGaps>(p, w + kWindows < p.windows ? w + kWindows : p.windows);
    Source<K, V> s{};
    if (lane < n) s.separator = lowest_level<K>(p.old)[first + lane], s.id = p.old.ids[first + lane], s.size = p.old.sizes[first + lane];
    const uint32_t begins = there != 0 ? p.begins[mine] : 0;
    // Each leaf of an unchanged window is a kept group.
    const bool same = there == 0 || stays(p, mine, there);
    if (ballot(kAll, !same) == 0) {
      if (lane < n) writer.line(from.out + lane, s.separator, s.id, s.size);
      continue;
    }
    sync_warp();
    const uint32_t now = read<K, V, kGaps>(p, first + lane, n, from, to, sources, s);
    const bool kept = arrange(p, from, n, first + n == leaves, same ? ~0u : begins, s, now), writes = now != 0 && !kept;
    const bool alone = !kGaps && writes && s.split.pairs == now && s.end - s.entry <= kWarp, simple = alone && s.split.leaves == 1;
    uint32_t id = s.id;
    if (alone) id = p.free[writer.taken + s.fresh], s.to = leaf_at<K, V>(p.to, id);
    sources[lane] = s;
    sync_warp();
    if (now != 0 && (kept || alone)) writer.line(s.out, s.separator, id, s.split.size(0));
    if constexpr (!kGaps) {
      write_simply(p, ballot(kAll, simple), sources);
      write_split(writer, ballot(kAll, alone && !simple), sources);
    }
    uint32_t rest = ballot(kAll, writes && !alone);
    for (; rest != 0; rest &= rest - 1) {
      const uint32_t which = lowest(rest);
      write_leaf<K, V, kGaps>(writer, first + which, sources[which]);
    }
  }
}

// Even lays out the pairs of a bulk load. All leaves have about the same number of pairs, the
// larger leaves first.
struct Even {
  uint32_t q = 0, large = 0;  // pairs per leaf, and the number of leaves with one more pair
  uint64_t cut = 0;           // number of pairs in these larger leaves

  __device__ __forceinline__ Even(uint64_t pairs, uint32_t fill) {
    const uint32_t leaves = (pairs + fill - 1) / fill;
    if (leaves == 0) return;
    q = pairs / leaves, large = pairs % leaves, cut = uint64_t(large) * (q + 1);
  }
  __device__ __forceinline__ uint32_t size(uint32_t leaf) const { return q + (leaf < large); }
  __device__ __forceinline__ Place place(uint64_t pair) const {
    if (pair < cut) return in(0, pair, q + 1);
    return in(large, pair - cut, q);
  }

 private:
  // in returns the place of a pair in leaves of equal size, which begin with leaf `first`.
  __device__ __forceinline__ static Place in(uint32_t first, uint64_t pair, uint32_t each) {
    if (pair >> 32 != 0) return {first + uint32_t(pair / each), uint32_t(pair % each)};
    const uint32_t leaf = uint32_t(pair) / each;  // takes a tenth of the time of a 64-bit division
    return {first + leaf, uint32_t(pair) - leaf * each};
  }
};

// loaded returns the number of pairs after a load of an empty map. If all operations are Puts that
// report nothing, all entries are kept, and settle has not run.
__device__ __forceinline__ uint32_t loaded(const ChangeParams& p) { return p.order ? p.sums[p.n] : *p.count; }

// load writes the entries to an empty map, one entry per thread.
template <class K, class V>
__device__ __forceinline__ void load(const ChangeParams& p) {
  const Writer<K, V> writer(p);
  const Even even(loaded(p), p.fill);
  const uint32_t count = *p.count;
  for (uint64_t e = thread_index(); e < count; e += threads_in_grid()) {
    if (p.order && !(p.infos[e] & kWillBe)) continue;
    const Place to = even.place(p.order ? p.sums[e] : e);
    const V val = p.order ? static_cast<const V*>(p.entry_vals)[e] : static_cast<const V*>(p.vals)[p.starts[e + 1] - 1];
    writer.put(0, 0, 0, to, even.size(to.leaf), key_in<K>(p.keys, e, p.old.flip), val);
  }
}

// enter writes the entries of hot leaves, one entry per thread. If the map is empty, it writes all
// entries.
template <class K, class V>
__device__ __forceinline__ void enter(const ChangeParams& p) {
  if (p.old.content->leaves == 0) return load<K, V>(p);
  if (*p.any_hot == 0) return;
  const Writer<K, V> writer(p);
  const uint32_t count = *p.count, touches = *p.touches;
  for (uint64_t e = thread_index(); e < count; e += threads_in_grid()) {
    const uint32_t leaf = p.leaves[e];
    const bool many = (e >= kHotEntries / 2 && p.leaves[e - kHotEntries / 2] == leaf) ||
                      (e + kHotEntries / 2 < count && p.leaves[e + kHotEntries / 2] == leaf);
    if (!many) continue;
    const uint32_t t = first_of(p, touches, leaf), first = p.firsts[t];
    if (p.firsts[t + 1] - first <= kHotEntries) continue;
    const Hot h = p.hot[first / kHotEntries];
    put_entry<K, V>(writer, e, first, h.split, h.at, h.out, h.fresh, K(h.separator));
  }
}

// refill writes all pairs to new memory, like a bulk load, one pair per thread.
template <class K, class V>
__device__ __forceinline__ void refill(const ChangeParams& p) {
  const Content c = *p.old.content;
  const Writer<K, V> writer(p);
  const Even even(c.live, p.fill);
  for (uint64_t i = thread_index(); i < c.live; i += threads_in_grid()) {
    const Place from = place_of(p.old, c, i), to = even.place(i);
    const Leaf<K, V>* leaf = leaf_at<K, V>(p.old, p.old.ids[from.leaf]);
    writer.put(0, 0, 0, to, even.size(to.leaf), leaf->keys[from.at], leaf->vals[from.at]);
  }
}

// ---- the new index ------------------------------------------------------------------

// climb writes the separator of a node to the levels above. It fills the last node of each level
// with the maximum key.
template <class K>
__device__ __forceinline__ void climb(const Index& x, uint32_t nodes, uint32_t node, K separator) {
  K* level = lowest_level<K>(x);
  const uint32_t last = nodes - 1;
  for (uint32_t l = 1; l < x.levels; l++, node /= kFanout) {
    level -= uint64_t(nodes_of(x, l)) * kFanout;
    level[node] = separator;
    if (node == last >> (kFanBits * (l - 1)))
      for (uint32_t i = node + 1; i % kFanout != 0; i++) level[i] = ~K(0);
    if (node % kFanout != 0) return;
  }
}

// finish completes the index except for the ranks, one node of the lowest level per thread.
template <class K>
__device__ __forceinline__ void finish(const ChangeParams& p, bool all) {
  const Content old = *p.old.content;
  Content now;
  uint32_t taken;
  if (all || old.leaves == 0) {
    now.live = all ? old.live : loaded(p);
    now.leaves = taken = (now.live + p.fill - 1) / p.fill;
  } else {
    now.live = p.gaps ? old.live - gone(p, old.live).before : old.live + int64_t(int32_t(p.sums[p.n]));
    now.leaves = p.before[p.windows].out, taken = p.before[p.windows].fresh;
  }
  K* low = lowest_level<K>(p.to);
  const uint32_t nodes = (now.leaves + kFanout - 1) / kFanout;
  for (uint64_t i = thread_index(); i < p.to.nodes; i += threads_in_grid()) {
    uint32_t sum = 0;
    if (i < nodes) {
      for (uint64_t leaf = i * kFanout; leaf < (i + 1) * kFanout; leaf++) {
        if (leaf < now.leaves) sum += p.to.sizes[leaf];
        else low[leaf] = ~K(0), p.to.ids[leaf] = 0, p.to.sizes[leaf] = 0;
      }
      climb<K>(p.to, nodes, i, low[i * kFanout]);
    }
    p.node_sums[i] = sum;
  }
  if (thread_index() != 0) return;
  now.taken = *p.taken += taken;
  *p.to.content = now;
}

}  // namespace weft::ordered
