// Lookups in a table of package cuckoo, concurrent with changes that move keys.
#pragma once

#include "cuckoo_evict.cuh"
#include "rounds.cuh"

namespace weft::cuckoo {

// find_of_eight searches two buckets of eight slots, in tables without a stash (rounds.cuh).
template <class S>
__device__ __forceinline__ bool find_of_eight(const Table& t, bool there, Path own, typename S::Key key, typename S::Key& value) {
  const bool extra = own.extra(), looks = there && !extra;
  BucketRounds<S> rounds;
  const typename S::Word* const slots = slots_of<S>(t);
  rounds.read(slots, looks ? own.first : kAll, key);
  bool hit = rounds.find(slots, looks ? own.first : kAll, key, value) && looks;
  // Unless the table balances, an empty slot in the first bucket ends the search.
  const bool ends = !t.balances && rounds.any([](typename S::Word w) { return S::key(w) == S::kEmpty; });
  const bool goes_on = looks && !hit && !ends;
  if (ballot(kAll, goes_on) != 0) {
    BucketRounds<S, true> others;
    typename S::Key held = 0;
    others.read(slots, goes_on ? own.second : kAll, key);
    if (others.find(slots, goes_on ? own.second : kAll, key, held) && goes_on) hit = true, value = held;
  }
  if (there && extra) {
    const typename S::Word w = load_relaxed(slots_of<S>(t) + uint64_t(t.nlines) * (kLineBytes / sizeof(w)) + own.second);
    hit = S::key(w) == key, value = S::value(w);
  }
  return hit;
}

// find_keys looks up the keys of a batch by search(there, path, stored key, value). Tiles repeat
// the lookups that must be retried.
template <class PathTile, class K, class V, int Lanes, class Search>
__device__ __forceinline__ void find_keys(const GetParams<Table>& p, Search search) {
  using S = typename PathTile::S;
  using Key = typename S::Key;
  const Table& t = p.table;
  find_batch<S, K, V, Lanes>(
      t, p.lookup, [&](Key key) { return lock_of(t, lock_bucket(path_of<S>(t, key))); },
      [&](bool there, Key key, Key& value) { return search(there, path_of<S>(t, key), stored<S>(key), value); },
      [&](bool there, Key key, Key& value) { return find_along<PathTile>(t, there, path_of<S>(t, key), stored<S>(key), value); });
}

}  // namespace weft::cuckoo
