// Lookups in a table of package horton. They may run concurrently with changes that move keys.
#pragma once

#include "horton_table.cuh"
#include "locks.cuh"
#include "rounds.cuh"

namespace weft::horton {

// find_once looks up one key in stored form for each lane with `there` (paper, section 5.2). All
// lanes of the warp must call it. After a tile has finished a key, it takes the next at once. So no
// lane waits for the few keys that need their secondary bucket.
template <class BucketTile>
__device__ __forceinline__ bool find_once(const Table& t, bool there, Path own, typename BucketTile::S::Key key,
                                          typename BucketTile::S::Key& value) {
  using S = typename BucketTile::S;
  BucketTile tile;
  uint32_t pending = ballot(kAll, there) >> tile.base & tile.kMask;
  const uint32_t parts = tile.parts(t.shift), all = parts + tile.parts(wide(t));

  value = 0;
  bool hit = false;
  uint32_t step = 0, second = kAll;
  while (ballot(kAll, pending != 0) != 0) {
    const bool busy = pending != 0;
    const uint32_t from = tile.base + (busy ? lowest(pending) : 0);
    const typename S::Key k = shuffle(kAll, key, from);
    const Path path = own.of(from);
    tile.next = kAll;
    if (busy && path.extra()) tile.read_extra(t, path);
    else if (busy && step < parts) tile.read(t, path, path.bucket << t.shift, step, true);
    else if (busy) tile.read(t, path, second, step - parts, false);

    bool match = false, other = false;
    typename S::Key held = 0;
    tile.each([&](int, int, typename S::Word w) {
      if (S::key(w) == k) match = true, held = S::value(w);
      other |= S::key(w) == S::kPending;
    });
    const uint32_t matches = tile.vote(match);
    // A pending slot may be about to hold this key, so read it again. The thread that writes the
    // slot needs one more instruction, and waits for no other lane.
    const bool wait = S::kTwoStep && tile.vote(other) != 0 && matches == 0;
    if constexpr (S::kHasValue) held = shuffle(kAll, held, tile.base + (matches ? lowest(matches) : 0));
    const uint32_t next = shuffle(kAll, tile.next, tile.base + tile.last_lane(t));
    if (busy && !wait) {
      if (++step == parts) second = next;
      const bool last = path.extra() || step == all || (step == parts && second == kAll);
      if (matches != 0 || last) {
        if (tile.lane == from) hit = matches != 0, value = held;
        pending &= pending - 1;
        step = 0;
      }
    }
  }
  return hit;
}

// find_of_eight is find_once for buckets of eight slots (rounds.cuh).
template <class S>
__device__ __forceinline__ bool find_of_eight(const Table& t, bool there, Path own, typename S::Key key, typename S::Key& value) {
  using A = Array<S>;
  const bool extra = own.extra(), looks = there && !extra;
  BucketRounds<S> rounds;
  const typename S::Word* const slots = slots_of<S>(t);
  rounds.read(slots, looks ? own.bucket : kAll, key);
  bool hit = rounds.find(slots, looks ? own.bucket : kAll, key, value) && looks;
  const typename S::Word array = rounds.last();
  const uint32_t entry = looks && !hit && A::is(array) ? A::entry(array, own.tag) : 0;
  if (ballot(kAll, entry != 0) != 0) {
    BucketRounds<S, true> others;
    typename S::Key held = 0;
    const uint32_t second = entry != 0 ? secondary(t, own.bucket, own.tag, A::kEntries, entry) / rounds.kSlots : kAll;
    others.read(slots, second, key);
    if (others.find(slots, second, key, held) && entry != 0) hit = true, value = held;
  }
  if (there && extra) {
    const typename S::Word w = load_relaxed(slots_of<S>(t) + uint64_t(t.nlines) * (kLineBytes / sizeof(w)) + own.tag);
    hit = S::key(w) == key, value = S::value(w);
  }
  return hit;
}

// find_keys looks up the keys of a batch by one of the searches above. Tiles repeat the lookups
// that must be retried.
template <class BucketTile, class K, class V, int Lanes, class Search>
__device__ __forceinline__ void find_keys(const GetParams<Table>& p, Search search) {
  using S = typename BucketTile::S;
  using Key = typename S::Key;
  const Table& t = p.table;
  find_batch<S, K, V, Lanes>(
      t, p.lookup,
      [&](Key key) {
        const Path path = Place<S>(t, key).path;
        return lock_of(t, path.extra() ? path.tag : path.bucket);
      },
      [&](bool there, Key key, Key& value) {
        const Place<S> place(t, key);
        return search(there, place.path, place.stored, value);
      },
      [&](bool there, Key key, Key& value) {
        const Place<S> place(t, key);
        return find_once<BucketTile>(t, there, place.path, place.stored, value);
      });
}

}  // namespace weft::horton
