// Lookup kernels: SEARCH and SEARCHALL.
#pragma once

#include "layout.cuh"
#include "weft/slab_find.cuh"

namespace weft::slab {

template <class S, class K, class V, bool Multi>
__device__ __forceinline__ void get(const GetParams<Table>& p) {
  Query<S> q = query<S, K, kLanes>(p.lookup, lane_index() % kLanes);
  typename S::Key value;
  bool hit = find<S, Multi>(p.table, q.there, q.key, value);
  answer<S, V>(p.lookup, q, hit, value);
}

// Wanted is the key for which a lane searches in SEARCHALL.
template <class S, class K>
struct Wanted {
  uint64_t i = thread_index();  // position of the key in the batch
  bool there;
  typename S::Key key;

  __device__ __forceinline__ Wanted(const void* keys, uint64_t n)
      : there(i < n), key(there ? typename S::Key(load_once(static_cast<const K*>(keys) + i)) : typename S::Key(0)) {}
};

// tally_all counts the pairs of each key.
template <class S, class K>
__device__ __forceinline__ void tally_all(const TallyParams& p) {
  Wanted<S, K> w(p.keys, p.n);
  search_all<S>(
      p.table, w.there, w.key,
      [](const SlabTile<S>& tile, typename S::Key k, uint32_t, uint32_t, bool busy) {
        uint32_t n = 0;
        tile.each([&](int, int, typename S::Word w) { n += popcount(tile.vote(busy && S::key(w) == k)); });
        return n;
      },
      [&](uint32_t total) { store_once(p.counts + w.i, total); });
}

// collect writes the values of each key, in chain order. A key may have lost pairs since they were
// counted.
template <class S, class K, class V>
__device__ __forceinline__ void collect(const CollectParams& p) {
  Wanted<S, K> w(p.keys, p.n);
  search_all<S>(
      p.table, w.there, w.key,
      [&](const SlabTile<S>& tile, typename S::Key k, uint32_t from, uint32_t before, bool busy) {
        uint64_t i = w.i - tile.lane + from;
        uint64_t row = 0, end = 0;  // relative to the first row that is written
        if (busy) {
          row = p.offsets[i] + before - p.first;
          end = p.offsets[i + 1];
          end = (end < p.rows ? end : p.rows) - p.first;
        }
        uint32_t below = (1u << tile.rank) - 1, n = 0;
#pragma unroll
        for (int v = 0; v < kPieces; v++) {
          // Within a piece, the order is lane by lane, and slot by slot in each lane.
          uint32_t votes[SlabTile<S>::kSlots], lower = n;
#pragma unroll
          for (int j = 0; j < tile.kSlots; j++) {
            votes[j] = tile.vote(busy && S::key(tile.piece[v].slots[j]) == k);
            lower += popcount(votes[j] & below);
            n += popcount(votes[j]);
          }
#pragma unroll
          for (int j = 0; j < tile.kSlots; j++) {
            if ((votes[j] >> tile.rank & 1) == 0) continue;
            if (row + lower < end) store_once(static_cast<V*>(p.vals) + row + lower, V(S::value(tile.piece[v].slots[j])));
            lower++;
          }
        }
        return n;
      },
      [&](uint32_t total) {
        if (p.found != nullptr) store_once(p.found + w.i, total);
      });
}

}  // namespace weft::slab
