// Lookups in a table of package cuckoo, beside changes that move keys.
#pragma once

#include "cuckoo_evict.cuh"

namespace weft::cuckoo {

// A lookup reads the buckets of its key one after the other, or both in any order; an
// eviction copies a key to another bucket, then clears the slot where it was. So a key
// may be seen twice, which does no harm, since both copies have one value: nothing else
// is done to a key while it moves. But a lookup that has read bucket A, before the key
// is copied there from B, and then reads B, where it has been cleared, sees it nowhere;
// and going back to A does not help if the key has moved on by then. So a key that is
// not found is looked for again if keys may have moved meanwhile:
//
// Blocks that move keys say that they begin, before, and that they end, behind
// (moving()). Who reads that none is at it, looks for the key in vain, and reads that
// none has begun since, has missed nothing. That costs all lookups one read of a word
// that lies in the cache, and those with a miss another. While keys move, a lookup that
// misses its key does it again by the lock of that key: whose number is even and the
// same before and behind a search, whose key has not been moved meanwhile.
//
// The order of accesses. moving: a block adds to it, then every move has a fence
// between its lock and its writes (Mover), so a thread that reads what a move has
// written, then has a fence, reads afterwards that the block had begun. Ends: what has
// been written before, a fence, the addition; a lookup that acquires the sum sees those
// writes. The lock: it is taken, a fence, the writes, and it is released, as a sequence
// lock is. Broken are: a lookup without the second read, one whose fence is missing, a
// move without its fence, a block that does not tell, and a lock that is not counted
// on (mutants_test.go).
template <class PathTile>
__device__ __forceinline__ bool find(const Table& t, bool there, typename PathTile::S::Key wanted,
                                     typename PathTile::S::Key& value) {
  using S = typename PathTile::S;
  const Path path = path_of<S>(t, wanted);
  const typename S::Key key = stored<S>(wanted);
  const uint64_t before = load_acquire(moving(t));
  bool hit = false, open = there;
  value = 0;
  for (bool careful = false;; careful = true) {
    const uint32_t number = careful && open ? load_acquire(lock_of(t, path)) : 0;
    const bool looks = open && number % 2 == 0;
    typename S::Key held;
    if (find_along<PathTile>(t, looks, path, key, held)) hit = true, value = held, open = false;
    if (ballot(kAll, open) == 0) return hit;
    fence();
    if (!looks || !open) continue;
    if (careful) open = load_relaxed(lock_of(t, path)) != number;
    else open = uint32_t(before >> 32) != uint32_t(before) || load_relaxed(moving(t)) != before;
  }
}

}  // namespace weft::cuckoo
