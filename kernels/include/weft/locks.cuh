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

// kLookups is how many keys a lane looks up before it asks whether keys have moved meanwhile.
constexpr uint32_t kLookups = 8;

// find_batch looks up the keys of a batch, by search(there, key, value), which returns whether it is found:
// in a table where keys move meanwhile. lock(key) is that of a key. careful is a search, too, for the
// few keys that are looked for again: it may be a slower one of less code. All threads of the grid
// must call it.
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
// none is at it, looks for keys in vain, and reads that none has begun since, has missed
// nothing. That costs one read of a word that lies in the cache for some keys of a lane together, and another
// one, behind a fence, if some of those are missing: what the batch is told of them is told once more, if it was
// wrong. Keys for which that is not so are looked for again, each by its lock: whose number is even and
// the same before and behind a search, whose key has not been moved meanwhile.
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
template <class S, class K, class V, int Lanes, class Table, class Lock, class Search, class Careful>
__device__ __forceinline__ void find_batch(const Table& t, const Lookup& l, Lock lock, Search search, Careful careful) {
  using Key = typename S::Key;
  const uint64_t* const moves = moving(t, uint32_t(thread_index() / kWarp) % kCopies);
  const uint64_t stride = threads_in_grid(), lane = lane_index(), end = l.spread ? l.n * Lanes : l.n;
  const uint32_t rank = lane_index() % Lanes;
  uint32_t hits = 0;
  uint64_t at = thread_index();
  Query<S> next = query<S, K, Lanes>(l, rank, at);
  while (at - lane < end) {
    const uint64_t first = at, before = load_acquire(moves);
    sync_warp();
    uint32_t missed = 0;
#pragma unroll 1
    for (uint32_t k = 0; k < kLookups && at - lane < end; k++) {
      const Query<S> q = next;
      at += stride;
      next = query<S, K, Lanes>(l, rank, at);  // it comes while this one is looked up
      Key value = 0;
      const bool hit = search(q.there, q.key, value);
      tell<S, V>(l, q, hit, value);
      if (q.there) hits += hit, missed |= uint32_t(!hit) << k;
    }
    if (ballot(kAll, missed != 0) == 0) continue;
    fence();
    sync_warp();
    if (uint32_t(before) == 0 && load_relaxed(moves) == before) missed = 0;
    while (ballot(kAll, missed != 0) != 0) {
      Query<S> q = query<S, K, Lanes>(l, rank, first + (missed != 0 ? lowest(missed) : 0) * stride);
      q.there = missed != 0;
      const uint32_t* const own = lock(q.key);
      const uint32_t number = q.there ? load_acquire(own) : 1;
      const bool looks = number % 2 == 0;
      if (q.there && !looks) pause(kPause);
      sync_warp();
      Key value = 0;
      const bool hit = careful(looks, q.key, value);
      if (hit) tell<S, V>(l, q, hit, value), hits++;
      fence();
      sync_warp();
      if (hit || (looks && load_relaxed(own) == number)) missed &= missed - 1;
    }
  }
  if (l.hits) count_all(l.hits, hits);
}

}  // namespace weft
