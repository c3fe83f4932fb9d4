// Lookups in a table of package cuckoo, beside changes that move keys.
#pragma once

#include "cuckoo_evict.cuh"
#include "rounds.cuh"

namespace weft::cuckoo {

// find_by looks up a key per lane that is there, by a search that takes its path and the key as it is
// stored. All lanes of the warp must call it.
template <class S, class Search>
__device__ __forceinline__ bool find_by(const Table& t, bool there, typename S::Key wanted, typename S::Key& value, Search search) {
  const Path path = path_of<S>(t, wanted);
  const typename S::Key key = stored<S>(wanted);
  return find_beside_moves(t, lock_of(t, lock_bucket(path)), there, value,
                           [&](bool looks, typename S::Key& held) { return search(looks, path, key, held); });
}

// find does it in tables of any shape.
template <class PathTile>
__device__ __forceinline__ bool find(const Table& t, bool there, typename PathTile::S::Key wanted,
                                     typename PathTile::S::Key& value) {
  using S = typename PathTile::S;
  return find_by<S>(t, there, wanted, value, [&](bool looks, Path path, typename S::Key key, typename S::Key& held) {
    return find_along<PathTile>(t, looks, path, key, held);
  });
}

// find_of_eight is a search in two buckets of eight slots, where there is no stash (rounds.cuh).
template <class S>
__device__ __forceinline__ bool find_of_eight(const Table& t, bool there, Path own, typename S::Key key, typename S::Key& value) {
  using Rounds = BucketRounds<S>;
  const bool extra = own.extra(), ends = !t.balances;
  const uint32_t base = Rounds().base;
  auto ends_here = [&](uint32_t, const typename Rounds::Bucket& bucket, typename S::Key) {
    bool empty = false;
    bucket.each([&](typename S::Word w) { empty |= S::key(w) == S::kEmpty; });
    return ballot(kAll, empty) >> base & Rounds::kMask;
  };
  bool hit = find_in_two<S>(slots_of<S>(t), there && !extra, own.first, key, value, ends_here,
                            [&](uint32_t empty) { return ends && empty != 0 ? kAll : own.second; });
  if (there && extra) {
    const typename S::Word w = load_relaxed(slots_of<S>(t) + uint64_t(t.nlines) * (kLineBytes / sizeof(w)) + own.second);
    hit = S::key(w) == key, value = S::value(w);
  }
  return hit;
}

}  // namespace weft::cuckoo
