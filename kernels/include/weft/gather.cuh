// Batches that consist of reductions only. If the rows have few distinct keys, or a few keys have
// most of the rows, a block first combines rows in shared memory. Then the block changes the table
// once for each key. A block measures at run time whether this gathering pays.
#pragma once

#include "batch.cuh"
#include "unite.cuh"

namespace weft {

// A block has kCells cells, one for each different key, so a thousand keys fill half of them. It
// searches for a key in kCellProbes cells.
constexpr uint32_t kCells = 2048, kCellProbes = 8;

// After kWindow rows per thread, a block checks whether gathering pays: whether one row in four had
// a key that already had a cell. If so, the next check comes after twice as many rows, up to
// kMaxWindow. If not, the block stops gathering for kApart times kWindow rows.
constexpr uint32_t kWindow = 8, kMaxWindow = 64, kApart = 8;

// kReduceBlocks is the number of blocks of a reducing kernel that must fit on a multiprocessor. A
// launch has exactly this many blocks per multiprocessor (gpu.Change.Submit). With 3 blocks instead
// of 4, sums of 10^8 pairs of 32 bits took a tenth longer. With 4 blocks, kernels for 16-byte slots
// would spill registers.
template <class S>
constexpr int kReduceBlocks = sizeof(typename S::Word) == 8 ? 4 : 3;

// Cells is an open-addressing table of keys and their gathered values. The key that looks like an
// empty cell has its own cell after the others, which may also be empty.
template <class K, class V>
struct Cells {
  static constexpr K kEmpty = ~K(0);

  K keys[kCells + 1];
  V vals[kCells + 1];

  __device__ static __forceinline__ uint32_t home(K key) { return uint32_t(hash(key, 0xce11)); }

  // clear empties all cells. All threads of a block call it, and sync before and after it.
  __device__ __forceinline__ void clear(V none) {
    for (uint32_t s = thread_in_block(); s <= kCells; s += threads_per_block()) keys[s] = kEmpty, vals[s] = none;
  }

  // join combines a row with the gathered rows of its key. It returns false if the key finds no
  // cell. Then later rows of that key find none, either. `meets` reports whether the key already
  // had a cell.
  __device__ __forceinline__ bool join(uint32_t kind, uint32_t flags, K key, V val, bool& meets) {
    const bool odd = key == kEmpty;
    const K name = odd ? 0 : key;
    for (uint32_t i = 0; i < kCellProbes; i++) {
      uint32_t s = odd ? kCells : (home(key) + i) % kCells;
      K held = load_relaxed(shared(&keys[s]));
      if (held == kEmpty) held = cas_relaxed(shared(&keys[s]), kEmpty, name);
      if (held != kEmpty && held != name) continue;
      meets = held == name;
      add(kind, flags, shared(&vals[s]), val);
      return true;
    }
    return false;
  }

  // key returns the key of cell s, which must not be empty.
  __device__ __forceinline__ K key(uint32_t s) const { return s == kCells ? kEmpty : keys[s]; }

  // holds reports whether a key has a cell, even if cells before it have been emptied.
  __device__ __forceinline__ bool holds(K key) const {
    if (key == kEmpty) return keys[kCells] != kEmpty;
    for (uint32_t i = 0, s = home(key); i < kCellProbes; i++, s++)
      if (keys[s % kCells] == key) return true;
    return false;
  }

 private:
  __device__ static __forceinline__ void add(uint32_t kind, uint32_t flags, Shared<V> place, V val) {
    if (folds(flags)) return fold(place, kind, flags, val);
    for (V held = load_relaxed(place);;) {
      V sum = combine<V>(kind, flags, held, val), was = held;
      if (sum == held || (held = cas_relaxed(place, held, sum)) == was) return;
    }
  }
};

// Reducer runs a block's part of a batch of reductions. Change runs one operation per lane on the
// table.
template <class S, class K, class V, class Change>
struct Reducer {
  const Changes& c;
  Cells<K, V>& cells;
  Change change;
  uint32_t fresh = 0, revived = 0;  // insertions by this warp

  // run runs the rows of a block, one row per thread at a time.
  __device__ __forceinline__ void run(Counters* counters) {
    const uint32_t stride = blocks_in_grid() * threads_per_block();
    uint32_t at = block_index() * threads_per_block(), since = at, apart = 0;
    // Gathering does not pay for few rows.
    bool gathers = (c.n + stride - 1) / stride >= kWindow;
    const bool ever = gathers;
    uint32_t window = kWindow;
    if (gathers) cells.clear(neutral<V>(c.kind, c.flags));
    sync_block();
    while (at < c.n) {
      uint32_t met = 0, rows = 0;
      for (; rows < window && at < c.n; at += stride, rows++) met += row(at + thread_in_block(), gathers);
      if (gathers) {
        bool pays = 4 * count_block_of(met) >= rows * threads_per_block();
        if (pays && at < c.n) {
          if (window < kMaxWindow) window *= 2;
          continue;
        }
        scatter(since, at, stride);
        gathers = false, window = kWindow;
      } else if (ever && ++apart == kApart) {
        gathers = true, apart = 0, since = at;
      }
    }
    if (lane_index() != 0 || fresh + revived == 0) return;
    add_relaxed(&counters->live, uint64_t(fresh) + revived);
    if (fresh != 0) add_relaxed(&counters->used, uint64_t(fresh));
  }

 private:
  // row gathers row i of the batch, or applies it to the table. It reports whether the key of the
  // row already had a cell.
  __device__ __forceinline__ uint32_t row(uint32_t i, bool gathers) {
    Operation<S> op = operation<S, K, V>(c, i);
    bool meets = false;
    if (gathers && op.there) op.there = !cells.join(c.kind, c.flags, K(op.key), V(op.value), meets);
    if (!gathers || ballot(kAll, op.there) != 0) {
      WarpReduction<S, V> warp;
      if (!folds(c.flags)) warp.unite(c.flags, op);
      put(op);
      if (!folds(c.flags)) warp.distribute(op);
      record(c.failed, c.first + i, op.outcome == kFull);
    }
    return meets;
  }

  __device__ __forceinline__ void put(Operation<S>& op) {
    change(op);
    fresh += popcount(ballot(kAll, op.outcome == kInserted));
    revived += popcount(ballot(kAll, op.outcome == kRevived));
  }

  // scatter applies the gathered values to the table and empties the cells. If a key finds no slot,
  // scatter lists all rows of this block with that key between `since` and `end`.
  __device__ __forceinline__ void scatter(uint32_t since, uint32_t end, uint32_t stride) {
    const V none = neutral<V>(c.kind, c.flags);
    sync_block();
    bool lost = false;
    for (uint32_t first = 0; first <= kCells; first += threads_per_block()) {  // all lanes loop
      uint32_t s = first + thread_in_block();
      Operation<S> op{s <= kCells && cells.keys[s] != cells.kEmpty, c.kind, 0, 0};
      if (op.there) op.key = typename S::Key(cells.key(s)), op.value = typename S::Key(cells.vals[s]);
      put(op);
      if (s > kCells) continue;
      if (op.outcome == kFull) lost = true;
      else cells.keys[s] = cells.kEmpty;
      cells.vals[s] = none;
    }
    if (count_block(lost) == 0) return;
    for (uint32_t at = since; at < end; at += stride) {
      uint32_t i = at + thread_in_block();
      record(c.failed, c.first + i, i < c.n && cells.holds(load_once(static_cast<const K*>(c.keys) + i)));
    }
    sync_block();
    cells.clear(none);
    sync_block();
  }

  // count_block_of returns the sum of one number per thread. All threads of the block must call it.
  __device__ __forceinline__ uint32_t count_block_of(uint32_t n) {
    uint32_t sum = 0;
    for (uint32_t bit = 1; bit <= kMaxWindow; bit *= 2) sum += bit * count_block(n & bit);
    return sum;
  }
};

// reduce_rows runs a batch of reductions in blocks that stride over it.
template <class S, class K, class V, class Change>
__device__ __forceinline__ void reduce_rows(const Changes& c, Counters* counters, Change change) {
  __shared__ Cells<K, V> cells;
  Reducer<S, K, V, Change>{c, cells, change}.run(counters);
}

// reduce_mixed runs the reductions of a mixed batch. Most mixed batches have none. If the device
// has no atomic for them, the reductions of a block are combined first.
template <class S, class K, class V, class Change>
__device__ __forceinline__ void reduce_mixed(const Changes& c, Counters* counters, Change change) {
  __shared__ typename BlockReduction<S, V>::Crowds crowds;
  if (load_relaxed(c.reductions) != c.ticket) return;
  const uint32_t stride = blocks_in_grid() * threads_per_block();
  for (uint32_t at = block_index() * threads_per_block(); at < c.n; at += stride) {
    uint32_t i = at + thread_in_block();
    Operation<S> op = operation<S, K, V>(c, i);
    op.there = op.there && reduces(op.kind);
    BlockReduction<S, V> all(crowds);
    if (!folds(c.flags)) all.unite(c.flags, op);
    change(op);
    if (!folds(c.flags)) all.distribute(op);
    outcome<S, V>(c, i, op);
    list(c, i, op, false);  // nothing contends in mixed batches
    tally_block(counters, op.outcome);
  }
}

}  // namespace weft
