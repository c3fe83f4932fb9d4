// Kernels that look up: SEARCH and SEARCHALL.
#pragma once

#include "tile.cuh"

namespace weft::slab {

// get follows the chain of each key (SEARCH). A slot once taken never becomes
// empty again and slots fill in order, so the first empty one ends the chain;
// what a word showed was the state of its key at the time of the load. Slabs
// that a link leads to need no acquire: before a launch links one it is all
// ones, since an earlier launch or the host made it so. Slabs of memory that
// the pool had not when this launch began are the exception (meet): a key whose
// chain leads to one waits until the others are done, and the warp meets it then.
// In the loop itself that would cost a fifth of the speed.
template <class S, class K, class V, bool Multi>
__device__ __forceinline__ void get(const GetParams<Table>& p) {
  using Key = typename S::Key;
  SlabTile<S> tile;
  Query<S> q = query<S, K, kLanes>(p.lookup, tile.rank);
  uint32_t home = locate<S>(p.table, q.key);
  Key key = stored<S>(q.key);
  uint32_t pending = ballot(kAll, q.there) >> tile.base & tile.kMask;

  Key value = 0;
  bool hit = false, later = false, again = false;  // again: home is where to go on
  uint32_t at = kNoUnit;
  while (ballot(kAll, pending != 0) != 0) {
    bool busy = pending != 0;
    uint32_t from = tile.base + (busy ? lowest(pending) : 0);
    Key k = shuffle(kAll, key, from);
    uint32_t start = shuffle(kAll, home, from);
    tile.load(p.table, start, again && at == kNoUnit ? start : at, busy);

    int match = -1;
    bool empty = false, other = false;
    Key held = 0;
    tile.each([&](int v, int j, typename S::Word w) {
      if (S::key(w) == k && (!Multi || match < 0)) match = v * tile.kSlots + j, held = S::value(w);
      empty |= S::key(w) == S::kEmpty;
      other |= S::key(w) == S::kPending;
    });
    // Of several pairs of the key, the least recent counts.
    uint32_t matches = Multi ? tile.first(match) : tile.vote(match >= 0);
    bool end = tile.vote(empty) != 0 || tile.link.next == kNoUnit;
    // A pending slot may be about to show this key: look again. Its owner
    // needs one more instruction and waits for nobody.
    bool wait = S::kTwoStep && tile.vote(other) != 0 && matches == 0;
    if constexpr (S::kHasValue) held = shuffle(kAll, held, tile.base + (matches ? lowest(matches) : 0));
    if (busy && !wait) {
      at = tile.link.next;
      bool young = p.table.alloc.young(at);
      if (matches != 0 || end || young) {
        if (tile.lane == from) {
          hit = matches != 0, value = held;
          if (matches == 0 && !end) later = true, home = at;
        }
        pending &= pending - 1;
        at = kNoUnit;
      }
    }
    if (ballot(kAll, pending != 0) == 0) {
      again = ballot(kAll, later) != 0;
      pending = ballot(kAll, later) >> tile.base & tile.kMask;
      if (again) fence(), sync_warp();
      later = false;
    }
  }
  answer<S, V>(p.lookup, q, hit, value);
}

// search_all follows the chain of each key to its end (SEARCHALL). It calls
// slab(tile, key, i, before, busy) for each slab, which returns how many pairs of
// key number i it has, given how many came before; and done(i, total).
template <class S, class K, class F, class G>
__device__ __forceinline__ void search_all(const Table& t, const void* keys, uint64_t n, F slab, G done) {
  using Key = typename S::Key;
  SlabTile<S> tile;
  uint64_t i = thread_index();
  bool mine = i < n;
  Key key = mine ? Key(load_once(static_cast<const K*>(keys) + i)) : Key(0);
  uint32_t home = locate<S>(t, key);
  key = stored<S>(key);
  uint32_t pending = ballot(kAll, mine) >> tile.base & tile.kMask;
  uint32_t at = kNoUnit, total = 0;
  while (ballot(kAll, pending != 0) != 0) {
    bool busy = pending != 0;
    uint32_t from = tile.base + (busy ? lowest(pending) : 0);
    Key k = shuffle(kAll, key, from);
    tile.load(t, shuffle(kAll, home, from), at, busy);
    bool empty = false;
    tile.each([&](int, int, typename S::Word w) { empty |= S::key(w) == S::kEmpty; });
    bool end = tile.vote(empty) != 0 || tile.link.next == kNoUnit;
    total += slab(tile, k, i - tile.lane + from, total, busy);
    if (busy) {
      at = tile.link.next;
      if (end) {
        if (tile.lane == from) done(i, total);
        pending &= pending - 1;
        at = kNoUnit, total = 0;
      } else {
        tile.meet(t, at);
      }
    }
  }
}

// tally counts the pairs of each key.
template <class S, class K>
__device__ __forceinline__ void tally_all(const TallyParams& p) {
  search_all<S, K>(
      p.table, p.keys, p.n,
      [](const SlabTile<S>& tile, typename S::Key k, uint64_t, uint32_t, bool busy) {
        uint32_t n = 0;
        tile.each([&](int, int, typename S::Word w) { n += popcount(tile.vote(busy && S::key(w) == k)); });
        return n;
      },
      [&](uint64_t i, uint32_t total) { store_once(p.counts + i, total); });
}

// collect writes the values of each key, in the order of its chain. A key may
// have lost pairs since they were counted.
template <class S, class K, class V>
__device__ __forceinline__ void collect(const CollectParams& p) {
  search_all<S, K>(
      p.table, p.keys, p.n,
      [&](const SlabTile<S>& tile, typename S::Key k, uint64_t i, uint32_t before, bool busy) {
        uint64_t row = 0, end = 0;  // from the first one that is written
        if (busy) {
          row = p.offsets[i] + before - p.first;
          end = p.offsets[i + 1];
          end = (end < p.rows ? end : p.rows) - p.first;
        }
        uint32_t below = (1u << tile.rank) - 1, n = 0;
#pragma unroll
        for (int v = 0; v < kPieces; v++) {
          // Lane by lane, slot by slot is the order of a piece.
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
      [&](uint64_t i, uint32_t total) {
        if (p.found != nullptr) store_once(p.found + i, total);
      });
}

}  // namespace weft::slab
