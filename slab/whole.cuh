// Kernels for whole tables: rehash, export, FLUSH, chain lengths.
#pragma once

#include "change.cuh"

namespace weft::slab {

// chain_slots calls f(live, word, bucket) for each slot of a tile's bucket, in chain order, if the
// tile is busy. Each lane takes one slot at a time. All lanes of a warp call f together. rank is
// the number of a lane in its tile.
template <class S, class F>
__device__ __forceinline__ void chain_slots(const Table& t, uint32_t lane, uint32_t rank, uint32_t bucket, bool busy, F f) {
  using Word = typename S::Word;
  uint32_t at = kNoUnit;
  while (ballot(kAll, busy) != 0) {
    Word128* slab = busy ? t.slab(bucket, at) : nullptr;
#pragma unroll 1
    for (uint32_t s = rank; s - rank < kSlots<S>; s += kLanes) {
      Word w = S::pair(S::kEmpty, 0);
      if (busy && s < kSlots<S>) w = load_relaxed(reinterpret_cast<Word*>(slab) + s);
      f(S::key(w) < S::kNone, w, bucket);
    }
    if (busy) at = load_relaxed(&link_of(slab)->next);
    busy = busy && at != kNoUnit;
    if (busy) t.alloc.meet(at, 1u << lane);
  }
}

// each_slot calls f in the same way for buckets [lo,hi), in the order that `step` defines
// (weft/spread.cuh).
template <class S, class F>
__device__ __forceinline__ void each_slot(const Table& t, uint32_t lo, uint32_t hi, uint32_t step, F f) {
  constexpr uint32_t kTiles = kWarp / kLanes;
  uint32_t lane = lane_index(), rank = lane % kLanes;
  uint64_t stride = threads_in_grid() / kWarp * kTiles, first = lo + thread_index() / kWarp * kTiles;
  Spread buckets(t.buckets, step, first + lane / kLanes, stride);
  for (; first < hi; first += stride, buckets.next()) {
    uint32_t bucket = buckets.at(first + lane / kLanes);
    chain_slots<S>(t, lane, rank, bucket, first + lane / kLanes < hi, f);
  }
}

// owned reports whether the contents of a base slab belong to the table.
__device__ __forceinline__ bool owned(const Table&, uint32_t) { return true; }

// rehash appends the live pairs of one table to the chains of another table. The pairs of a key
// keep their order. The pairs are distinct, so rehash does not search for equal pairs.
template <class S, class P>
__device__ __forceinline__ void rehash(const P& p) {
  Resident resident;
  const Table& from = p.from;
  const Table& to = p.to;
  each_slot<S>(from, 0, from.buckets + 1, 1, [&](bool live, typename S::Word w, uint32_t bucket) {
    Operation<S> op{live && owned(p.from, bucket), kPut, original<S>(p.from, S::key(w), bucket), S::value(w)};
    change<S, true>(p.to, 0, op, &resident);
    tally(to.counters, op.outcome);
    uint32_t lost = popcount(ballot(kAll, op.outcome == kFull));
    if (lost != 0 && lane_index() == 0) add_relaxed(p.lost, lost);
  });
}

// export_live writes the live pairs of a range of buckets to two columns.
template <class S, class K, class V, class T>
__device__ __forceinline__ void export_live(const ExportParams<T>& p) {
  each_slot<S>(p.table, p.to.lo, p.to.hi, p.to.step, [&](bool live, typename S::Word w, uint32_t bucket) {
    emit<S, K, V>(p.to, live && owned(p.table, bucket), original<S>(p.table, S::key(w), bucket), S::value(w));
  });
}

// trim ends a chain after the first `filled` slots of a slab, and frees the slabs that follow.
template <class S>
__device__ __forceinline__ void trim(const Table& t, bool busy, uint32_t bucket, Word128* slab, uint32_t filled) {
  using Word = typename S::Word;
  uint32_t lane = lane_index(), rank = lane % kLanes;
  uint32_t next = busy ? load_relaxed(&link_of(slab)->next) : kNoUnit;
  ballot(kAll, true);  // all lanes have read the next unit before a lane clears the link
  if (busy) {
    for (uint32_t s = filled + rank; s < kSlots<S>; s += kLanes)
      store_relaxed(reinterpret_cast<Word*>(slab) + s, S::pair(S::kEmpty, S::kEmpty));
    if (rank == 0) {
      store_relaxed(&link_of(slab)->next, kNoUnit);
      store_relaxed(&link_of(t.slab(bucket, kNoUnit))->tail, kNoUnit);
    }
  }
  while (ballot(kAll, next != kNoUnit) != 0) {
    uint32_t unit = next;
    if (unit != kNoUnit) {
      slab = t.slab(0, unit);
      next = load_relaxed(&link_of(slab)->next);
    }
    ballot(kAll, true);
    if (unit != kNoUnit) {
#pragma unroll
      for (int v = 0; v < kPieces; v++) store_relaxed(slab + v * kLanes + rank, Word128{~0ul, ~0ul});
      if (rank == 0) release(t.alloc, unit);
    }
  }
}

// flush removes the dead slots of every bucket, and frees the slabs that become empty (FLUSH). A
// tile moves the live slots of a bucket to the front of its chain, in order. So it writes only to
// slots that it has read. No other kernel may use the table meanwhile.
template <class S>
__device__ __forceinline__ void flush(const FlushParams& p) {
  using Word = typename S::Word;
  constexpr uint32_t kTiles = kWarp / kLanes, kM = kSlots<S>;
  const Table& t = p.table;
  uint32_t lane = lane_index(), rank = lane % kLanes, base = lane - rank;
  uint64_t warps = threads_in_grid() / kWarp;
  for (uint64_t first = thread_index() / kWarp * kTiles; first <= t.buckets; first += warps * kTiles) {
    uint64_t bucket = first + lane / kLanes;
    bool busy = bucket <= t.buckets;
    Word128* from = busy ? t.slab(uint32_t(bucket), kNoUnit) : nullptr;
    Word128* to = from;   // slab of the next live slot
    uint32_t filled = 0;  // number of slots of `to` that are in place
    while (ballot(kAll, busy) != 0) {
#pragma unroll 1
      for (uint32_t s = rank; s - rank < kM; s += kLanes) {
        Word w = S::pair(S::kEmpty, 0);
        if (busy && s < kM) w = load_relaxed(reinterpret_cast<Word*>(from) + s);
        bool live = S::key(w) < S::kNone;
        // All lanes have read before any lane writes: the vote is a barrier.
        uint32_t votes = ballot(kAll, live) >> base & ((1u << kLanes) - 1);
        uint32_t place = filled + popcount(votes & ((1u << rank) - 1)), after = filled + popcount(votes);
        Word128* beyond = to;
        if (busy && after > kM) beyond = t.slab(0, load_relaxed(&link_of(to)->next));
        if (live) {
          Word* slot = place < kM ? reinterpret_cast<Word*>(to) + place : reinterpret_cast<Word*>(beyond) + place - kM;
          if (slot != reinterpret_cast<Word*>(from) + s) store_relaxed(slot, w);
        }
        to = beyond;
        filled = after > kM ? after - kM : after;
      }
      uint32_t next = busy ? load_relaxed(&link_of(from)->next) : kNoUnit;
      busy = busy && next != kNoUnit;
      if (busy) from = t.slab(0, next);
    }
    trim<S>(t, bucket <= t.buckets, uint32_t(bucket), to, filled);
  }
  if (thread_index() == 0) t.counters->used = t.counters->live;
}

// chains counts buckets by their number of slabs. Lane l counts the buckets with l slabs.
__device__ __forceinline__ void chains(const ChainParams& p) {
  const Table& t = p.table;
  uint32_t lane = lane_index();
  uint64_t mine = 0;
  for (uint64_t first = thread_index() - lane; first <= t.buckets; first += threads_in_grid()) {
    uint32_t length = 0;
    if (first + lane <= t.buckets) {
      uint32_t at = kNoUnit;
      do {
        at = load_relaxed(&link_of(t.slab(uint32_t(first + lane), at))->next);
        length++;
      } while (at != kNoUnit);
    }
    length = length < kWarp - 1 ? length : kWarp - 1;
    for (uint32_t l = 1; l < kWarp; l++) {
      uint32_t n = popcount(ballot(kAll, length == l));
      if (lane == l) mine += n;
    }
  }
  if (mine != 0) add_relaxed(p.lengths + lane, mine);
}

}  // namespace weft::slab
