// Kernels of package sorted, an ordered map in a sorted array. doc.go explains the structure, and
// layout.go explains the memory.
//
// An array is immutable once lookups can read it. A change writes another array. Launches run one
// after the other, so all accesses are weak.
#include "merge.cuh"
#include "weft/entry.cuh"

namespace weft::sorted {

// ---- lookups ---------------------------------------------------------------

struct SeekParams {
  Array array;
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

// answer writes the pair at a place as answer i, or zeros if the pair is absent.
template <class K, class V>
__device__ __forceinline__ bool answer(const SeekParams& p, uint64_t i, uint64_t at, bool there) {
  return inorder::answer<K, V>(p, i, there, [&] { return keys_of<K>(p.array)[at] ^ K(p.array.flip); }, [&] { return vals_of<V>(p.array)[at]; });
}

// copy copies a pair to row number `to` of columns.
template <class K, class V>
__device__ __forceinline__ void copy(const Array& a, uint64_t from, void* keys, void* vals, uint64_t to) {
  static_cast<K*>(keys)[to] = keys_of<K>(a)[from] ^ K(a.flip);
  static_cast<V*>(vals)[to] = vals_of<V>(a)[from];
}

// range counts the pairs in range i. If columns for the pairs are given, it also writes the pairs.
template <class K, class V>
__device__ __forceinline__ bool range(const SeekParams& p, uint64_t i, uint64_t n) {
  const K flip = p.array.flip;
  const Span s = span<K>(p.array, n, key_in(p.lo, i, flip), key_in(p.hi, i, flip), p.bounds);
  const uint64_t count = s.to - s.from;
  p.counts[i] = count;
  if (p.keys) {
    for (uint64_t j = 0; j < count; j++)
      copy<K, V>(p.array, p.bounds.backward ? s.to - 1 - j : s.from + j, p.keys, p.vals, i * p.bounds.limit + j);
  }
  return count != 0;
}

// one answers query i.
template <class K, class V>
__device__ __forceinline__ bool one(const SeekParams& p, uint64_t i, uint64_t n) {
  if (p.hi) return range<K, V>(p, i, n);
  if (p.kind == kSelect) return answer<K, V>(p, i, p.ranks[i], p.ranks[i] < n);
  const K key = key_in<K>(p.lo, i, p.array.flip);
  uint64_t at = place(p.array, n, key);
  const bool same = at < n && keys_of<K>(p.array)[at] == key;
  switch (p.kind) {
    case kRank:
      p.ranks[i] = at;
      return false;
    case kSuccessor:
      at += same;
      return answer<K, V>(p, i, at, at < n);
    case kPredecessor:
      return answer<K, V>(p, i, at - 1, at != 0);
  }
  return answer<K, V>(p, i, at, same);
}

template <class K, class V>
__device__ __forceinline__ void seek(const SeekParams& p) {
  const uint64_t n = p.array.counters->live;
  uint32_t hits = 0;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) hits += one<K, V>(p, i, n);
  if (p.hits) add_warp_sum(p.hits, hits);
}

template <class K, class V>
__device__ __forceinline__ void get(const SeekParams& p) {
  const uint64_t n = p.array.counters->live;
  uint32_t hits = 0;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const K key = key_in<K>(p.lo, i, p.array.flip);
    const uint64_t at = place(p.array, n, key);
    const bool there = at < n && keys_of<K>(p.array)[at] == key;
    if (p.vals) static_cast<V*>(p.vals)[i] = there ? vals_of<V>(p.array)[at] : V(0);
    if (p.ok) p.ok[i] = there;
    hits += there;
  }
  if (p.hits) add_warp_sum(p.hits, hits);
}

struct RowsParams {
  Array array;
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
template <class K, class V>
__device__ __forceinline__ void rows(const RowsParams& p) {
  const uint64_t n = p.array.counters->live;
  const K flip = p.array.flip;
  for (uint64_t i = thread_index() / kRowLanes; i < p.n; i += threads_in_grid() / kRowLanes) {
    const Span s = span<K>(p.array, n, key_in(p.lo, i, flip), key_in(p.hi, i, flip), p.bounds);
    const uint64_t row = p.offsets[i];
    const uint32_t lane = thread_in_block() % kRowLanes;
    for (uint64_t j = lane; j < s.to - s.from && row + j < p.limit; j += kRowLanes)
      copy<K, V>(p.array, p.bounds.backward ? s.to - 1 - j : s.from + j, p.keys, p.vals, row + j - p.first);
    if (p.found && lane == 0) p.found[i] = s.to - s.from;
  }
}

struct CopyParams {
  Array array;
  void* keys;
  void* vals;
  uint64_t from, n;
  uint32_t backward;
  uint32_t unused;
};

// copy_pairs copies n pairs. Forward, it begins with the pair at position `from`. Backward, it
// begins with the pair before that position, and positions descend.
template <class K, class V>
__device__ __forceinline__ void copy_pairs(const CopyParams& p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid())
    copy<K, V>(p.array, p.backward ? p.from - 1 - i : p.from + i, p.keys, p.vals, i);
}

// ---- changes ---------------------------------------------------------------

struct SettleParams {
  Array old;
  const void* keys;        // keys of the batch, sorted
  const uint32_t* order;   // rows of these keys
  const uint32_t* starts;  // first row of each key, and the end
  const uint32_t* count;   // number of distinct keys
  const void* vals;
  const uint8_t* kinds;
  void* out;
  uint8_t* ok;
  void* entry_vals;  // output, per key: the new value
  uint32_t* places;  // per key: number of smaller keys in the old array
  uint32_t* deltas;  // per key: change of the number of pairs; 0 after the last key
  uint8_t* states;   // per key: a State
  uint32_t n;
  uint32_t kind;
  uint32_t flags;
  uint32_t unused;
};

// settle runs the operations of each key in batch order, one key per thread.
template <class K, class V>
__device__ __forceinline__ void settle(const SettleParams& p) {
  const uint64_t n = p.old.counters->live;
  const uint32_t count = *p.count;
  for (uint64_t e = thread_index(); e < p.n; e += threads_in_grid()) {
    if (e >= count) {
      p.deltas[e] = 0;
      continue;
    }
    const uint32_t row = p.starts[e];
    const K key = key_in<K>(p.keys, row, p.old.flip);
    const uint64_t at = place(p.old, n, key);
    const bool was = at < n && keys_of<K>(p.old)[at] == key;
    Slot<V> s{was, was ? vals_of<V>(p.old)[at] : V(0)};
    run_all(p, row, p.starts[e + 1], s);
    static_cast<V*>(p.entry_vals)[e] = s.val;
    p.places[e] = at;
    p.deltas[e] = uint32_t(s.there) - uint32_t(was);
    p.states[e] = (s.there ? kWillBe : 0) | (was ? kWas : 0);
  }
}

struct MoveParams {
  Array old, to;
  const void* keys;
  const uint32_t* starts;
  const uint32_t* count;
  const void* entry_vals;
  const uint32_t* places;
  const uint32_t* shifts;  // sums of the deltas of earlier entries, modulo 2^32
  const uint8_t* states;
  uint32_t n;
  uint32_t unused;
};

// move copies the pairs of the old array without an entry. Each pair moves by the sum of the deltas
// before it. A warp moves adjacent pairs, with few entries between them, or none. move also writes
// the number of pairs.
template <class K, class V>
__device__ __forceinline__ void move(const MoveParams& p) {
  const uint64_t n = p.old.counters->live;
  const uint32_t count = *p.count;
  const uint64_t warps = threads_in_grid() / kWarp;
  for (uint64_t first = thread_index() / kWarp * (kWarp * kMoves); first < n; first += warps * (kWarp * kMoves)) {
    const uint64_t last = first + kWarp * kMoves < n ? first + kWarp * kMoves : n;
    const uint32_t lo = first == 0 ? 0 : behind(p.places, 0, count, first - 1);
    const uint32_t hi = behind(p.places, lo, count, last - 1);
    for (uint64_t i = first + lane_index(); i < last; i += kWarp) {
      const uint32_t e = behind(p.places, lo, hi, i);
      if (e != 0 && p.places[e - 1] == i && (p.states[e - 1] & kWas)) continue;
      const uint64_t to = shifted(i, p.shifts[e]);
      keys_of<K>(p.to)[to] = keys_of<K>(p.old)[i];
      vals_of<V>(p.to)[to] = vals_of<V>(p.old)[i];
    }
  }
  if (thread_index() == 0) p.to.counters->live = p.to.counters->used = shifted(n, p.shifts[p.n]);
}

// enter writes the pairs of entries to the new array.
template <class K, class V>
__device__ __forceinline__ void enter(const MoveParams& p) {
  const uint32_t count = *p.count;
  for (uint64_t e = thread_index(); e < count; e += threads_in_grid()) {
    if (!(p.states[e] & kWillBe)) continue;
    const uint64_t to = shifted(p.places[e], p.shifts[e]);
    keys_of<K>(p.to)[to] = static_cast<const K*>(p.keys)[p.starts[e]] ^ K(p.old.flip);
    vals_of<V>(p.to)[to] = static_cast<const V*>(p.entry_vals)[e];
  }
}

struct KeepParams {
  Array old, to;
  const Gap* gaps;  // in ascending order
  uint64_t count;   // number of gaps, at least one
};

// keep copies the pairs that are in no gap.
template <class K, class V>
__device__ __forceinline__ void keep(const KeepParams& p) {
  const uint64_t n = p.old.counters->live;
  for (uint64_t i = thread_index(); i < n; i += threads_in_grid()) {
    const uint64_t behind = first<uint64_t>(0, p.count, [&](uint64_t g) { return p.gaps[g].from > i; });
    uint64_t gone = 0;
    if (behind != 0) {
      const Gap g = p.gaps[behind - 1];
      if (i < g.to) continue;
      gone = g.before + g.to - g.from;
    }
    keys_of<K>(p.to)[i - gone] = keys_of<K>(p.old)[i];
    vals_of<V>(p.to)[i - gone] = vals_of<V>(p.old)[i];
  }
  if (thread_index() == 0) {
    const Gap g = p.gaps[p.count - 1];
    p.to.counters->live = p.to.counters->used = n - (g.before + g.to - g.from);
  }
}

struct IndexParams {
  Array array;
};

// index writes the index levels above the keys, one node per thread.
template <class K>
__device__ __forceinline__ void index(const IndexParams& p) {
  const uint64_t n = p.array.counters->live;
  for (uint64_t i = thread_index(); i < n >> kFanBits; i += threads_in_grid()) index_node<K>(p.array, i);
}

struct AnswerParams {
  Array array;
  const void* keys;
  void* vals;
  uint8_t* ok;  // may be null; in: inserted; out: present before
  uint64_t n;
};

// load sets the value of each PutNew row to the value of its key in the array.
template <class K, class V>
__device__ __forceinline__ void load(const AnswerParams& p) {
  const uint64_t n = p.array.counters->live;
  reread<K, V>(p, p.array.flip, [&](K key, V& val) {
    const uint64_t at = place(p.array, n, key);
    const bool there = at < n && keys_of<K>(p.array)[at] == key;
    if (there) val = vals_of<V>(p.array)[at];
    return there;
  });
}

struct AddParams {
  const Counters* counters;
  uint64_t* to;
  uint32_t negate;
  uint32_t unused;
};

}  // namespace weft::sorted

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::sorted;
WEFT_WIDTHS;

WEFT_KERNEL(sorted_get, 4)(SeekParams p) { get<K, V>(p); }
WEFT_KERNEL(sorted_seek, 4)(SeekParams p) { seek<K, V>(p); }
WEFT_KERNEL(sorted_rows, 4)(RowsParams p) { rows<K, V>(p); }
WEFT_KERNEL(sorted_copy, 4)(CopyParams p) { copy_pairs<K, V>(p); }
WEFT_KERNEL(sorted_settle, 4)(SettleParams p) { settle<K, V>(p); }
WEFT_KERNEL(sorted_move, 4)(MoveParams p) { weft::sorted::move<K, V>(p); }
WEFT_KERNEL(sorted_enter, 4)(MoveParams p) { enter<K, V>(p); }
WEFT_KERNEL(sorted_keep, 4)(KeepParams p) { keep<K, V>(p); }
WEFT_KERNEL(sorted_index, 4)(IndexParams p) { weft::sorted::index<K>(p); }
WEFT_KERNEL(sorted_load, 4)(AnswerParams p) { load<K, V>(p); }
WEFT_KERNEL(sorted_add, 1)(AddParams p) {
  if (thread_index() != 0) return;
  add(p.to, p.counters->live, p.negate);
}
