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
// The order of accesses. Who misses a key has read its old slot when that was dead. A move
// has a fence before it makes a slot dead, behind taking its lock, and behind what its block
// has added to moving(); so a thread that has read the dead slot, then has a fence, reads
// afterwards that the block had begun, and that the lock was taken. At its end a block has a
// fence before it adds to moving(): a lookup that acquires the sum sees all its moves. The
// lock is given back by a release, and a lookup acquires it, as it does a sequence lock.
// The lanes of a tile read for each other, so what a lane has read of locks comes before
// what others read for it, and what they have read before what it reads of locks then, by
// meetings of the warp. mutants_test.go has what breaks it: a lookup that does not ask, a
// block that tells too late, a move without its fence, lanes that do not meet. (One without
// its fence takes a hundred schedules; one that does not look at the lock misses a key only
// where that moves between both searches, too, which no test has waited for.)
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
    sync_warp();
    typename S::Key held;
    if (find_along<PathTile>(t, looks, path, key, held)) hit = true, value = held, open = false;
    if (ballot(kAll, open) == 0) return hit;
    fence();
    sync_warp();
    if (!looks || !open) continue;
    if (careful) open = load_relaxed(lock_of(t, path)) != number;
    else open = uint32_t(before >> 32) != uint32_t(before) || load_relaxed(moving(t)) != before;
  }
}

}  // namespace weft::cuckoo
