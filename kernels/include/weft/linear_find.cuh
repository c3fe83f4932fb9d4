// Lookups in a table of package linear by tiles.
#pragma once

#include "linear_table.cuh"

namespace weft::linear {

// find looks up a key per lane that is there, by its home and as it is stored. All
// lanes of the warp must call it.
//
// It is one scan of atomic loads per key. A path only ever fills: a slot once
// taken never becomes empty again, so the first empty slot ends the scan, and
// what a word showed was the state of its key at the time of the load.
template <class S, int Lanes, int Pieces>
__device__ __forceinline__ bool find(const Table& t, bool there, uint32_t home, typename S::Key key,
                                     typename S::Key& value) {
  using Key = typename S::Key;
  PathTile<S, Lanes, Pieces> tile;
  uint32_t pending = ballot(kAll, there) >> tile.base & tile.kMask;

  value = 0;
  bool hit = false;
  uint32_t step = 0;
  while (ballot(kAll, pending != 0) != 0) {
    bool busy = pending != 0;
    uint32_t from = tile.base + (busy ? lowest(pending) : 0);
    Key k = shuffle(kAll, key, from);
    Path path{shuffle(kAll, home, from)};
    if (busy) tile.load(t, path, step);

    bool match = false, empty = false, other = false;
    Key held = 0;
    tile.each([&](int, int, typename S::Word w) {
      if (S::key(w) == k) match = true, held = S::value(w);
      empty |= S::key(w) == S::kEmpty;
      other |= S::key(w) == S::kPending;
    });
    uint32_t matches = tile.vote(match), empties = tile.vote(empty);
    // A pending slot may be about to show this key: look again. Its owner
    // needs one more instruction and waits for nobody.
    bool wait = S::kTwoStep && tile.vote(other) != 0 && matches == 0;
    if constexpr (S::kHasValue) held = shuffle(kAll, held, tile.base + (matches ? lowest(matches) : 0));
    if (busy && !wait) {
      bool last = ++step == path.steps(t, tile.kSectors);
      if (matches != 0 || empties != 0 || last) {
        if (tile.lane == from) hit = matches != 0, value = held;
        pending &= pending - 1;
        step = 0;
      }
    }
  }
  return hit;
}

}  // namespace weft::linear
