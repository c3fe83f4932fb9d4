// Tiles look up keys in a table of package slab: SEARCH and SEARCHALL.
#pragma once

#include "slab_table.cuh"

namespace weft::slab {

// find looks up one key for each lane with `there`. All lanes of the warp must call it.
//
// It follows the chain of each key (SEARCH). A slot in use never becomes empty again, and slots
// fill in order. So the first empty slot ends the chain. A word shows the state of its key at the
// time of the load.
//
// A lookup needs no acquire for slabs to which a link leads. Before a launch links a slab, the slab
// is all ones, which an earlier launch or the host has set. Slabs in memory that the pool added
// after this launch began are the exception, because they need meet. If a chain leads to such a
// slab, its key waits until the other searches are done. Then the warp calls meet. A call in the
// loop itself would cost a fifth of the speed.
template <class S, bool Multi, class T>
__device__ __forceinline__ bool find(const T& in, bool there, typename S::Key wanted, typename S::Key& value) {
  using Key = typename S::Key;
  const Table& t = in;  // the table; `in` locates the buckets
  SlabTile<S> tile;
  uint32_t home = locate<S>(in, wanted);
  Key key = stored<S>(wanted);
  uint32_t pending = ballot(kAll, there) >> tile.base & tile.kMask;

  value = 0;
  bool hit = false, later = false, again = false;  // again: home is the slab at which to continue
  uint32_t at = kNoUnit;
  while (ballot(kAll, pending != 0) != 0) {
    bool busy = pending != 0;
    uint32_t from = tile.base + (busy ? lowest(pending) : 0);
    Key k = shuffle(kAll, key, from);
    uint32_t start = shuffle(kAll, home, from);
    tile.load(t, start, again && at == kNoUnit ? start : at, busy);

    int match = -1;
    bool empty = false, other = false;
    Key held = 0;
    tile.each([&](int v, int j, typename S::Word w) {
      if (S::key(w) == k && (!Multi || match < 0)) match = v * tile.kSlots + j, held = S::value(w);
      empty |= S::key(w) == S::kEmpty;
      other |= S::key(w) == S::kPending;
    });
    // If the key has several pairs, the oldest counts.
    uint32_t matches = Multi ? tile.first(match) : tile.vote(match >= 0);
    bool end = tile.vote(empty) != 0 || tile.link.next == kNoUnit;
    // A pending slot may be about to hold this key, so read it again. The thread that writes the
    // slot needs one more instruction, and waits for no other lane.
    bool wait = S::kTwoStep && tile.vote(other) != 0 && matches == 0;
    if constexpr (S::kHasValue) held = shuffle(kAll, held, tile.base + (matches ? lowest(matches) : 0));
    if (busy && !wait) {
      at = tile.link.next;
      bool young = t.alloc.young(at);
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
  return hit;
}

// search_all follows the chain of each key to its end (SEARCHALL). For each slab it calls
// slab(tile, key, from, before, busy). That function returns the number of pairs in the slab that
// have the key of lane `from`. before is their number in earlier slabs. At the end of a chain,
// search_all calls done(total) in lane `from`. All lanes of the warp must call it.
template <class S, class F, class G>
__device__ __forceinline__ void search_all(const Table& t, bool there, typename S::Key wanted, F slab, G done) {
  using Key = typename S::Key;
  SlabTile<S> tile;
  uint32_t home = locate<S>(t, wanted);
  Key key = stored<S>(wanted);
  uint32_t pending = ballot(kAll, there) >> tile.base & tile.kMask;
  uint32_t at = kNoUnit, total = 0;
  while (ballot(kAll, pending != 0) != 0) {
    bool busy = pending != 0;
    uint32_t from = tile.base + (busy ? lowest(pending) : 0);
    Key k = shuffle(kAll, key, from);
    tile.load(t, shuffle(kAll, home, from), at, busy);
    bool empty = false;
    tile.each([&](int, int, typename S::Word w) { empty |= S::key(w) == S::kEmpty; });
    bool end = tile.vote(empty) != 0 || tile.link.next == kNoUnit;
    total += slab(tile, k, from, total, busy);
    if (busy) {
      at = tile.link.next;
      if (end) {
        if (tile.lane == from) done(total);
        pending &= pending - 1;
        at = kNoUnit, total = 0;
      } else {
        tile.meet(t, at);
      }
    }
  }
}

}  // namespace weft::slab
