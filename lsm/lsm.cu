// Kernels of package lsm, a log-structured merge tree of sorted arrays. doc.go explains the
// structure, and layout.go explains the memory.
//
// A level is immutable once lookups can read it. A change writes another level. Launches run one
// after the other, so all accesses are weak.
#include "layout.cuh"
#include "weft/entry.cuh"

namespace weft::lsm {

using sorted::kWas;
using sorted::kWillBe;

// ---- lookups ---------------------------------------------------------------

struct SeekParams {
  Levels levels;
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

// Found is the newest entry of a key.
struct Found {
  uint32_t level;  // kMost: the tree lacks the key
  uint64_t at;
};

// find searches the levels for a key, the newest level first.
template <class K>
__device__ __forceinline__ Found find(const Levels& s, K key) {
  for (uint32_t l = 0; l < s.count; l++) {
    const Level& level = s.at[l];
    const uint64_t n = entries(level);
    const uint64_t at = place(level, n, key);
    if (same(level, n, at, key)) return {level.deltas[at] < 0 ? kMost : l, at};
  }
  return {kMost, 0};
}

template <class K, class V>
__device__ __forceinline__ void get(const SeekParams& p) {
  uint32_t hits = 0;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const Found f = find<K>(p.levels, key_in<K>(p.lo, i, p.levels.flip));
    const bool there = f.level != kMost;
    if (p.vals) static_cast<V*>(p.vals)[i] = there ? vals_of<V>(p.levels.at[f.level].array)[f.at] : V(0);
    if (p.ok) p.ok[i] = there;
    hits += there;
  }
  if (p.hits) add_warp_sum(p.hits, hits);
}

// Ranks are the ranks [from,to) of the pairs in a range, up to its limit.
struct Ranks {
  uint32_t from, to;
};

template <class K>
__device__ __forceinline__ Ranks ranks(const Levels& s, K lo, K hi, Bounds b) {
  Ranks r{0, 0};
  if (lo > hi) return r;
  r.from = rank(s, lo, false);
  r.to = rank(s, hi, true);
  bound(r.from, r.to, b);
  return r;
}

// copy copies the pair of an entry to row number `to` of columns.
template <class K, class V>
__device__ __forceinline__ void copy(const Levels& s, const Entry<K>& e, void* keys, void* vals, uint64_t to) {
  if (keys) static_cast<K*>(keys)[to] = e.key ^ K(s.flip);
  if (vals) static_cast<V*>(vals)[to] = vals_of<V>(s.at[e.level].array)[e.at];
}

// answer writes the pair of an entry as answer i, or zeros if the pair is absent.
template <class K, class V>
__device__ __forceinline__ bool answer(const SeekParams& p, uint64_t i, const Entry<K>& e, bool there) {
  return inorder::answer<K, V>(p, i, there, [&] { return e.key ^ K(p.levels.flip); }, [&] { return vals_of<V>(p.levels.at[e.level].array)[e.at]; });
}

// seek counts the pairs in ranges, and answers kRank and kSelect.
template <class K, class V>
__device__ __forceinline__ void seek(const SeekParams& p) {
  const K flip = p.levels.flip;
  uint32_t hits = 0;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    if (p.kind == kSelect) {
      Entry<K> e{0, 0, 0};
      const bool there = p.ranks[i] < size(p.levels);
      if (there) {
        e.key = select<K>(p.levels, p.ranks[i]);
        const Found f = find<K>(p.levels, e.key);
        e.level = f.level, e.at = f.at;
      }
      hits += answer<K, V>(p, i, e, there);
    } else if (p.hi) {
      const Ranks r = ranks<K>(p.levels, key_in(p.lo, i, flip), key_in(p.hi, i, flip), p.bounds);
      p.counts[i] = r.to - r.from;
      hits += r.to != r.from;
    } else {
      p.ranks[i] = rank(p.levels, key_in(p.lo, i, flip), false);
    }
  }
  if (p.hits) add_warp_sum(p.hits, hits);
}

// walk answers kSuccessor and kPredecessor, and writes the first pairs of ranges to columns.
template <class K, class V>
__device__ __forceinline__ void walk(const SeekParams& p, Places& of) {
  const K flip = p.levels.flip;
  const bool down = p.hi ? p.bounds.backward : p.kind == kPredecessor;
  uint32_t hits = 0;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const K lo = key_in(p.lo, i, flip), hi = p.hi ? key_in(p.hi, i, flip) : lo;
    Walk<K> w(p.levels, down, of);
    Entry<K> e{0, 0, 0};
    w.begin(down ? hi : lo);
    const uint32_t limit = p.hi ? p.bounds.limit : 1;
    uint32_t count = 0;
    while (count < limit && lo <= hi && w.next(e)) {
      if (!p.hi && e.key == lo) continue;
      if (p.hi && (down ? e.key < lo : e.key > hi)) break;
      if (p.hi) copy<K, V>(p.levels, e, p.keys, p.vals, i * limit + count);
      count++;
    }
    if (p.hi)
      p.counts[i] = count;
    else
      answer<K, V>(p, i, e, count != 0);
    hits += count != 0;
  }
  if (p.hits) add_warp_sum(p.hits, hits);
}

struct RowsParams {
  Levels levels;
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

constexpr uint32_t kChunk = 64;  // number of consecutive pairs that a thread finds

// rows writes the pairs of all ranges, one range after the other. Each lane has a range. If the
// range is long, the lane writes its first pairs, and the warp shares the rest.
template <class K, class V>
__device__ __forceinline__ void rows(const RowsParams& p, Places& of) {
  const K flip = p.levels.flip;
  const bool down = p.bounds.backward;
  for (uint64_t first = thread_index() - lane_index(); first < p.n; first += threads_in_grid()) {
    const uint64_t i = first + lane_index();
    Ranks r{0, 0};
    uint64_t row = 0;
    if (i < p.n) {
      r = ranks<K>(p.levels, key_in(p.lo, i, flip), key_in(p.hi, i, flip), p.bounds);
      row = p.offsets[i];
      if (p.found) p.found[i] = r.to - r.from;
    }
    bool all = true;  // each lane first begins its own range
    for (uint32_t left = kAll; left != 0;) {
      const uint32_t whose = all ? lane_index() : lowest(left);
      const Ranks s{shuffle(kAll, r.from, whose), shuffle(kAll, r.to, whose)};
      const uint64_t to = shuffle(kAll, row, whose);
      for (uint32_t c = all ? 0 : kChunk * (1 + lane_index()); c < s.to - s.from; c += kChunk * kWarp) {
        const uint32_t count = s.to - s.from - c < kChunk ? s.to - s.from - c : kChunk;
        Walk<K> w(p.levels, down, of);
        if (all)
          w.begin(key_in(down ? p.hi : p.lo, i, flip));
        else
          w.begin_at(down ? s.to - 1 - c : s.from + c);
        Entry<K> e{0, 0, 0};
        for (uint32_t j = c; j < c + count && to + j < p.limit && w.next(e); j++) copy<K, V>(p.levels, e, p.keys, p.vals, to + j - p.first);
        if (all) break;
      }
      left = all ? ballot(kAll, r.to - r.from > kChunk) : left & (left - 1);
      all = false;
    }
  }
}

struct CopyParams {
  Levels levels;
  const Gap* gaps;  // in ascending order; null: copy the pairs from a rank on
  uint64_t count;   // number of gaps
  void* keys;
  void* vals;
  Level to;  // with gaps: receives the tombstones
  uint64_t from, n;
  uint32_t backward;
  uint32_t unused;
};

// copy_pairs copies n pairs. Forward, it begins with the pair of rank `from`. Backward, it begins
// with the pair before that rank, and ranks descend. With gaps, it instead writes tombstones for
// the pairs in the gaps.
template <class K, class V>
__device__ __forceinline__ void copy_pairs(const CopyParams& p, Places& of) {
  for (uint64_t first = thread_index() * kChunk; first < p.n; first += threads_in_grid() * kChunk) {
    const uint64_t last = first + kChunk < p.n ? first + kChunk : p.n;
    Walk<K> w(p.levels, p.backward, of);
    uint64_t end = p.gaps ? first : last;  // end of the pairs that the walk visits
    uint64_t gap = 0;
    Entry<K> e{0, 0, 0};
    for (uint64_t i = first; i < last; i++) {
      if (i == first || i == end) {
        uint64_t rank_of = p.backward ? p.from - 1 - i : p.from + i;
        if (p.gaps) {
          gap = inorder::first<uint64_t>(0, p.count, [&](uint64_t g) { return p.gaps[g].before > i; }) - 1;
          rank_of = p.gaps[gap].from + i - p.gaps[gap].before;
          end = p.gaps[gap].before + p.gaps[gap].to - p.gaps[gap].from;
        }
        w.begin_at(rank_of);
      }
      if (!w.next(e)) break;
      if (p.gaps) {
        keys_of<K>(p.to.array)[i] = e.key;
        vals_of<V>(p.to.array)[i] = 0;
        p.to.deltas[i] = -1;
      } else {
        copy<K, V>(p.levels, e, p.keys, p.vals, i);
      }
    }
  }
  if (p.gaps && thread_index() == 0) p.to.array.counters->live = p.n;
}

// ---- changes ---------------------------------------------------------------

struct SettleParams {
  Levels levels;
  const void* keys;        // keys of the batch, sorted
  const uint32_t* order;   // rows of these keys
  const uint32_t* starts;  // first row of each key, and the end
  const uint32_t* count;   // number of distinct keys
  const void* vals;
  const uint8_t* kinds;
  void* out;
  uint8_t* ok;
  void* entry_vals;  // output, per key: the new value
  Delta* deltas;
  uint32_t* kept;  // 1 if the key gets an entry; 0 after the last key
  uint32_t n;
  uint32_t kind;
  uint32_t flags;
  uint32_t unused;
};

// settle runs the operations of each key in batch order, one key per thread.
template <class K, class V>
__device__ __forceinline__ void settle(const SettleParams& p) {
  const uint32_t count = *p.count;
  for (uint64_t e = thread_index(); e < p.n; e += threads_in_grid()) {
    if (e >= count) {
      p.kept[e] = 0;
      continue;
    }
    const uint32_t row = p.starts[e];
    const Found f = find(p.levels, key_in<K>(p.keys, row, p.levels.flip));
    const bool was = f.level != kMost;
    const V val = was ? vals_of<V>(p.levels.at[f.level].array)[f.at] : V(0);
    Slot<V> s{was, val};
    run_all(p, row, p.starts[e + 1], s);
    static_cast<V*>(p.entry_vals)[e] = s.val;
    p.deltas[e] = Delta(s.there) - Delta(was);
    p.kept[e] = s.there != was || (was && s.val != val);
  }
}

struct EnterParams {
  Level to;
  const void* keys;  // keys of the batch, sorted
  const uint32_t* starts;
  const uint32_t* count;
  const void* entry_vals;
  const Delta* deltas;
  const uint32_t* kept;
  const uint32_t* places;  // places of kept entries
  uint64_t flip;
  uint32_t n;
  uint32_t unused;
};

// enter writes the entries of a batch to a run.
template <class K, class V>
__device__ __forceinline__ void enter(const EnterParams& p) {
  const uint32_t count = *p.count;
  for (uint64_t e = thread_index(); e < count; e += threads_in_grid()) {
    if (!p.kept[e]) continue;
    const uint32_t to = p.places[e];
    keys_of<K>(p.to.array)[to] = static_cast<const K*>(p.keys)[p.starts[e]] ^ K(p.flip);
    vals_of<V>(p.to.array)[to] = static_cast<const V*>(p.entry_vals)[e];
    p.to.deltas[to] = p.deltas[e];
  }
  if (thread_index() == 0) p.to.array.counters->live = p.places[p.n];
}

struct MergeParams {
  Level newer, older, to;
  uint32_t* places;        // per entry of `newer`: number of smaller keys in `older`
  Delta* deltas;          // per entry of `newer`: delta after the merge
  uint8_t* states;         // sorted::State
  uint32_t* changes;       // per entry: change of the number of entries; 0 after the last
  const uint32_t* shifts;  // prefix sums of changes
  uint32_t n;              // maximum number of entries in `newer`
  uint32_t unused;
};

// match determines the result for each entry of a newer level that is merged with the next older
// level. One entry per key remains. If a tombstone meets the entry that adds its key, none remains.
template <class K, class V>
__device__ __forceinline__ void match(const MergeParams& p) {
  const uint64_t n = entries(p.older), count = entries(p.newer);
  for (uint64_t e = thread_index(); e < p.n; e += threads_in_grid()) {
    if (e >= count) {
      p.changes[e] = 0;
      continue;
    }
    const K key = keys_of<K>(p.newer.array)[e];
    const uint64_t at = place(p.older, n, key);
    const bool was = same(p.older, n, at, key);
    const Delta own = p.newer.deltas[e];
    const Delta delta = was ? own + p.older.deltas[at] : own;
    const bool stays = own >= 0 || delta != 0;
    p.places[e] = at;
    p.deltas[e] = delta;
    p.states[e] = (stays ? kWillBe : 0) | (was ? kWas : 0);
    p.changes[e] = uint32_t(stays) - uint32_t(was);
  }
}

template <class K, class V>
__device__ __forceinline__ void put(const Level& to, uint64_t at, K key, V val, Delta delta) {
  keys_of<K>(to.array)[at] = key;
  vals_of<V>(to.array)[at] = val;
  to.deltas[at] = delta;
}

constexpr uint32_t kMoves = 8;  // number of entries that a thread moves

// move copies the entries of the older level without a newer entry. Each entry moves by the sum of
// the changes before it. A warp moves adjacent entries. move also writes the number of entries.
template <class K, class V>
__device__ __forceinline__ void move(const MergeParams& p) {
  const uint64_t n = entries(p.older);
  const uint32_t count = entries(p.newer);
  const uint64_t warps = threads_in_grid() / kWarp;
  for (uint64_t first = thread_index() / kWarp * (kWarp * kMoves); first < n; first += warps * (kWarp * kMoves)) {
    const uint64_t last = first + kWarp * kMoves < n ? first + kWarp * kMoves : n;
    const uint32_t lo = first == 0 ? 0 : sorted::behind(p.places, 0, count, first - 1);
    const uint32_t hi = sorted::behind(p.places, lo, count, last - 1);
    for (uint64_t i = first + lane_index(); i < last; i += kWarp) {
      const uint32_t e = sorted::behind(p.places, lo, hi, i);
      if (e != 0 && p.places[e - 1] == i && (p.states[e - 1] & kWas)) continue;
      put(p.to, sorted::shifted(i, p.shifts[e]), keys_of<K>(p.older.array)[i], vals_of<V>(p.older.array)[i], p.older.deltas[i]);
    }
  }
  if (thread_index() == 0) p.to.array.counters->live = sorted::shifted(n, p.shifts[p.n]);
}

// join writes the entries of the newer level to the result.
template <class K, class V>
__device__ __forceinline__ void join(const MergeParams& p) {
  const uint64_t count = entries(p.newer);
  for (uint64_t e = thread_index(); e < count; e += threads_in_grid())
    if (p.states[e] & kWillBe)
      put(p.to, sorted::shifted(p.places[e], p.shifts[e]), keys_of<K>(p.newer.array)[e], vals_of<V>(p.newer.array)[e], p.deltas[e]);
}

struct IndexParams {
  Level level;
  uint32_t* counts;  // output: sum of the deltas in each node; 0 after the last node
  uint64_t nodes;
};

// index writes the index levels above the keys. For each node of 16 entries it also writes the sum
// of their deltas: by how many keys an entry changes the tree (layout.go).
template <class K>
__device__ __forceinline__ void index(const IndexParams& p) {
  const uint64_t n = entries(p.level);
  for (uint64_t i = thread_index(); i < p.nodes; i += threads_in_grid()) {
    const uint64_t first = i << kFanBits;
    uint32_t sum = 0;
    for (uint64_t j = first; j < first + kFan; j++) {
      if (j < n)
        sum += int32_t(p.level.deltas[j]);
      else
        p.level.deltas[j] = 0;  // deltas are read in whole words
    }
    p.counts[i] = sum;
    if (first + kFan <= n) sorted::index_node<K>(p.level.array, i);
  }
}

struct AnswerParams {
  Levels levels;
  const void* keys;
  void* vals;
  uint8_t* ok;  // may be null; in: inserted; out: present before
  uint64_t n;
};

// load sets the value of each PutNew row to the value of its key in the tree.
template <class K, class V>
__device__ __forceinline__ void load(const AnswerParams& p) {
  reread<K, V>(p, p.levels.flip, [&](K key, V& val) {
    const Found f = find(p.levels, key);
    const bool there = f.level != kMost;
    if (there) val = vals_of<V>(p.levels.at[f.level].array)[f.at];
    return there;
  });
}

struct CountParams {
  Levels levels;
  uint64_t* add;     // may be null; the kernel adds or subtracts the number of keys
  uint64_t* counts;  // may be null; output: number of keys, then entries of each level
  uint32_t negate;
  uint32_t unused;
};

}  // namespace weft::lsm

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::lsm;
WEFT_WIDTHS;

WEFT_KERNEL(lsm_get, 4)(SeekParams p) { get<K, V>(p); }
WEFT_KERNEL(lsm_seek, 4)(SeekParams p) { seek<K, V>(p); }
WEFT_KERNEL(lsm_walk, 4)(SeekParams p) {
  __shared__ Places places;
  walk<K, V>(p, places);
}
WEFT_KERNEL(lsm_rows, 4)(RowsParams p) {
  __shared__ Places places;
  rows<K, V>(p, places);
}
WEFT_KERNEL(lsm_copy, 4)(CopyParams p) {
  __shared__ Places places;
  copy_pairs<K, V>(p, places);
}
WEFT_KERNEL(lsm_settle, 4)(SettleParams p) { settle<K, V>(p); }
WEFT_KERNEL(lsm_enter, 4)(EnterParams p) { enter<K, V>(p); }
WEFT_KERNEL(lsm_match, 4)(MergeParams p) { match<K, V>(p); }
WEFT_KERNEL(lsm_move, 4)(MergeParams p) { weft::lsm::move<K, V>(p); }
WEFT_KERNEL(lsm_join, 4)(MergeParams p) { join<K, V>(p); }
WEFT_KERNEL(lsm_index, 4)(IndexParams p) { weft::lsm::index<K>(p); }
WEFT_KERNEL(lsm_load, 4)(AnswerParams p) { load<K, V>(p); }
WEFT_KERNEL(lsm_count, 1)(CountParams p) {
  if (thread_index() != 0) return;
  const uint64_t keys = size(p.levels);
  if (p.add) add(p.add, keys, p.negate);
  if (!p.counts) return;
  p.counts[0] = keys;
  for (uint32_t l = 0; l < p.levels.count; l++) p.counts[1 + l] = entries(p.levels.at[l]);
}
