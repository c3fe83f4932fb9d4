// Resolves the order of a batch, because threads run in no order. If an operation finds its key
// present, or a delete finds its key absent, another operation of the batch may be the cause. A
// launch with kContend does not decide such operations, and lists them instead. Then the listed
// operations contend for their keys, and change.cuh applies the winners. In a batch without such
// duplicates the list is empty, and the kernels that resolve it end at once.
#pragma once

#include "column.cuh"
#include "hash.cuh"
#include "warp.cuh"

namespace weft {

// Kind equals weft.OpKind. kNone is a kind that a table does not support.
enum Kind : uint32_t { kGet, kPut, kPutNew, kDelete, kDeleteAll, kSum, kMin, kMax, kAnd, kOr, kNone };

enum Flags : uint32_t {
  kReuse = 1,    // inserts may take dead slots; the launch has no deletes
  kContend = 2,  // do not decide operations that duplicates may affect; list them
  kMulti = 4,    // a multimap
  kSigned = 8,   // values are signed integers; without kSigned and kFloat they are unsigned
  kFloat = 16,
  kCached = 256,       // the table lies in the L2 cache
  // live slots keep their keys in this launch, which has only Puts or only reductions
  kKeysFixed = 1u << 31,
};

// List is an array that a launch appends to.
struct List {
  uint32_t* items;
  uint32_t* count;
};

// record appends the indices of lanes with p to a list. If items is null, it only counts them.
__device__ __forceinline__ void record(List list, uint32_t index, bool p) {
  uint32_t votes = ballot(kAll, p);
  if (votes == 0) return;
  uint32_t lane = lane_index(), at = 0;
  if (lane == lowest(votes)) at = add_relaxed(list.count, popcount(votes));
  at = shuffle(kAll, at, lowest(votes));
  if (p && list.items) list.items[at + popcount(votes & ((1u << lane) - 1))] = index;
}

// count adds the number of threads with p to a counter, with one atomic per block. All threads of
// the block must call it.
__device__ __forceinline__ void count(uint64_t* to, bool p) {
  uint32_t n = count_block(p);
  if (n != 0 && thread_in_block() == 0) add_relaxed(to, uint64_t(n));
}

// count_all adds each thread's number to a counter, with one atomic per warp. All lanes must call
// it.
__device__ __forceinline__ void count_all(uint64_t* to, int32_t each) {
  for (uint32_t x = 1; x < kWarp; x *= 2) each += int32_t(shuffle_xor(kAll, uint32_t(each), x));
  if (each != 0 && lane_index() == 0) add_relaxed(to, uint64_t(int64_t(each)));
}

// Contest holds the parameters of the kernels that resolve duplicates of a batch.
struct Contest {
  const void* keys;
  uint32_t* winners;  // mask + 1 entries, zero at first
  List contended;
  uint32_t mask;
  uint32_t n;
  uint32_t kind;
  uint32_t narrow;  // NarrowColumns
};

// WinnerTable maps a key to its winner. The winner is the last Put, or the first PutNew or Delete.
// An entry is the index of the winner plus one, and its key is the key of that operation. So no key
// is reserved.
template <class K>
struct WinnerTable {
  using Key = typename Column<K>::Word;

  const void* keys;
  uint32_t* slots;
  uint32_t mask;
  bool narrow;

  // key returns the key of operation i.
  __device__ __forceinline__ Key key(uint32_t i) const { return Column<K>::read(keys, i, narrow); }

  __device__ __forceinline__ uint32_t home(Key key) const { return uint32_t(hash(key, 0x5eed)) & mask; }

  // offer enters operation i as the winner of its key, if it wins over the present entry.
  template <bool Last>
  __device__ __forceinline__ void offer(uint32_t i) {
    Key mine = key(i);
    for (uint32_t s = home(mine);; s = (s + 1) & mask) {
      uint32_t held = cas_relaxed(slots + s, 0, i + 1);
      if (held == 0) return;
      if (key(held - 1) != mine) continue;
      if constexpr (Last) max_relaxed(slots + s, i + 1);
      else min_relaxed(slots + s, i + 1);
      return;
    }
  }

  // find returns the slot of a key, or nullptr. The table is at most half full, so a search ends.
  __device__ __forceinline__ uint32_t* find(Key wanted) const {
    for (uint32_t s = home(wanted);; s = (s + 1) & mask) {
      uint32_t held = load_relaxed(slots + s);
      if (held == 0) return nullptr;
      if (key(held - 1) == wanted) return slots + s;
    }
  }
};

template <class K>
__device__ __forceinline__ WinnerTable<K> winners_of(const Contest& c) {
  return {c.keys, c.winners, c.mask, bool(c.narrow & kNarrowKeys)};
}

// contend enters the listed operations in the table.
template <class K>
__device__ __forceinline__ void contend(const Contest& c) {
  auto winners = winners_of<K>(c);
  uint32_t n = load_relaxed(c.contended.count);
  for (uint64_t j = thread_index(); j < n; j += threads_in_grid()) {
    if (c.kind == kPut) winners.template offer<true>(c.contended.items[j]);
    else winners.template offer<false>(c.contended.items[j]);
  }
}

// claim lets all Puts contend that have the key of a listed operation. The Put that inserted such a
// key was not listed, but may be the last.
template <class K>
__device__ __forceinline__ void claim(const Contest& c) {
  if (load_relaxed(c.contended.count) == 0) return;
  auto winners = winners_of<K>(c);
  for (uint64_t i = thread_index(); i < c.n; i += threads_in_grid())
    if (uint32_t* w = winners.find(winners.key(i))) max_relaxed(w, uint32_t(i) + 1);
}

// reset empties the table of winners for the next batch, if this batch used it.
__device__ __forceinline__ void reset(const Contest& c) {
  if (load_relaxed(c.contended.count) == 0) return;
  for (uint64_t s = thread_index(); s <= c.mask; s += threads_in_grid()) c.winners[s] = 0;
}

}  // namespace weft
