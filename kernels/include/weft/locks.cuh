// Locks of tables whose keys move.
//
// A lock is a number in a small array, which is odd while it is taken. It belongs to all
// keys of a bucket, the first of their buckets, and to those of any other bucket whose number
// ends alike. Nobody waits for a lock who has one: who finds one taken gives back its own
// and tries again, by another way, so there is no deadlock, whatever moves cross.
#pragma once

#include "batch.cuh"

namespace weft {

// lock_of is that of a bucket of a table, which has `locks`, lock_mask + 1 of them.
template <class Table>
__device__ __forceinline__ uint32_t* lock_of(const Table& t, uint32_t bucket) {
  return t.locks + (bucket & t.lock_mask);
}

// kPause is how many nanoseconds who has found a lock taken lets others run.
constexpr uint32_t kPause = 100;

// try_lock takes a lock, unless another thread has it.
__device__ __forceinline__ bool try_lock(uint32_t* lock) {
  uint32_t number = load_relaxed(lock);
  return number % 2 == 0 && cas_acquire(lock, number, number + 1) == number;
}
// unlock gives it back. Its number has not been before, for long.
__device__ __forceinline__ void unlock(uint32_t* lock) { store_release(lock, load_relaxed(lock) + 1); }

// moving counts, behind the locks, blocks that move keys: those that have begun in the upper
// half, those that are at it in the lower, which so never overflows. There are copies of it, each in a line of its own: all
// warps that look keys up read one, and a single word answers 1.7 G times a second at most.
constexpr uint32_t kCopies = 16, kCopyWords = 32;
template <class Table>
__device__ __forceinline__ uint64_t* moving(const Table& t, uint32_t copy) {
  return reinterpret_cast<uint64_t*>(t.locks + t.lock_mask + 1 + copy * kCopyWords);
}

// begin_moving and end_moving are called by all threads of a block before it moves keys, and
// behind that.
template <class Table>
__device__ __forceinline__ void begin_moving(const Table& t) {
  const uint32_t copy = thread_in_block();
  if (copy < kCopies) add_relaxed(moving(t, copy), (uint64_t(1) << 32) + 1), fence();
  sync_block();
}
template <class Table>
__device__ __forceinline__ void end_moving(const Table& t) {
  sync_block();
  const uint32_t copy = thread_in_block();
  if (copy < kCopies) fence(), add_relaxed(moving(t, copy), ~uint64_t(0));
}

// find_beside_moves looks up a key per lane that is there, by search(looks, value), which
// returns whether it is found: in a table where keys move meanwhile. lock is that of its key.
// All lanes of the warp must call it.
//
// A lookup reads the buckets of its key one after the other, or some in any order; a move
// copies a key to another bucket, then clears the slot where it was. So a key may be seen
// twice, which does no harm, since both copies have one value: nothing else is done to a key
// while it moves. But a lookup that has read bucket A, before the key is copied there from B,
// and then reads B, where it has been cleared, sees it nowhere; and going back to A does not
// help if the key has moved on by then. So a key that is not found is looked for again if keys
// may have moved meanwhile:
//
// Blocks that move keys say that they begin, before, and that they end, behind. Who reads that
// none is at it, looks for the key in vain, and reads that none has begun since, has missed
// nothing. That costs all lookups one read of a word that lies in the cache, and those with a
// miss another. While keys move, a lookup that misses its key does it again by the lock of that
// key: whose number is even and the same before and behind a search, whose key has not been
// moved meanwhile.
//
// The order of accesses. Who misses a key has read its old slot when that was cleared. A move
// has a fence before it clears a slot, behind taking its lock, and behind what its block has
// added to moving(); so a thread that has read the cleared slot, then has a fence, reads
// afterwards that the block had begun, and that the lock was taken. At its end a block has a
// fence before it adds to moving(): a lookup that acquires the sum sees all its moves. The lock
// is given back by a release, and a lookup acquires it, as it does a sequence lock. The lanes of
// a tile read for each other, so what a lane has read of locks comes before what others read for
// it, and what they have read before what it reads of locks then, by meetings of the warp.
// The tests of mutants have what breaks it: a lookup that does not ask, a block that tells too
// late, a move without its fence, lanes that do not meet.
template <class Table, class Key, class Search>
__device__ __forceinline__ bool find_beside_moves(const Table& t, const uint32_t* lock, bool there, Key& value, Search search) {
  uint64_t* const moves = moving(t, uint32_t(thread_index() / kWarp) % kCopies);
  const uint64_t before = load_acquire(moves);
  bool hit = false, open = there;
  value = 0;
  for (bool careful = false;; careful = true) {
    const uint32_t number = careful && open ? load_acquire(lock) : 0;
    const bool looks = open && number % 2 == 0;
    if (open && !looks) pause(kPause);
    sync_warp();
    Key held;
    if (search(looks, held)) hit = true, value = held, open = false;
    if (ballot(kAll, open) == 0) return hit;
    fence();
    sync_warp();
    if (!looks || !open) continue;
    if (careful) open = load_relaxed(lock) != number;
    else open = uint32_t(before) != 0 || load_relaxed(moves) != before;
  }
}

}  // namespace weft
