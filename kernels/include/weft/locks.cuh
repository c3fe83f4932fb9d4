// Locks of tables with keys that move.
//
//
// A lock is a number in a small array. The number is odd while the lock is taken. A lock protects
// all keys with a given first bucket, and those of any other bucket with the same low bits. A
// thread that holds a lock never waits for another: if it finds one taken, it releases its own and
// retries another way. So crossing moves cannot deadlock.
#pragma once

#include "batch.cuh"

namespace weft {

// lock_of returns the lock of a bucket. A table has lock_mask + 1 `locks`.
template <class Table>
__device__ __forceinline__ uint32_t* lock_of(const Table& t, uint32_t bucket) {
  return t.locks + (bucket & t.lock_mask);
}

// kPause is the number of nanoseconds to wait after finding a lock taken.
constexpr uint32_t kPause = 100;

// try_lock takes a lock, unless another thread has it.
__device__ __forceinline__ bool try_lock(uint32_t* lock) {
  uint32_t number = load_relaxed(lock);
  return number % 2 == 0 && cas_acquire(lock, number, number + 1) == number;
}
// unlock releases a lock. Its new number has not been in use recently.
__device__ __forceinline__ void unlock(uint32_t* lock) { store_release(lock, load_relaxed(lock) + 1); }

// moving counts, after the locks, blocks that move keys: those that have begun in the upper half,
// those still moving in the lower. So the lower half never overflows. Each of its copies has its
// own line: all warps that look keys up read one, and a single word serves at most 1.7 G reads a
// second.
constexpr uint32_t kCopies = 16, kCopyWords = 32;
template <class Table>
__device__ __forceinline__ uint64_t* moving(const Table& t, uint32_t copy) {
  return reinterpret_cast<uint64_t*>(t.locks + t.lock_mask + 1 + copy * kCopyWords);
}

// All threads of a block call begin_moving before the block moves keys, and end_moving after that.
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

// kLookups is the number of keys that a lane looks up before it checks whether keys have moved
// meanwhile.
constexpr uint32_t kLookups = 8;

// find_batch looks up the keys of a batch in a table with keys that may move. search(there, key,
// value) returns whether a key is found. lock(key) returns its lock. careful is also a search, for
// the few keys that are looked up again: it may be slower, with less code. All threads of the grid
// must call it.
//
// A lookup reads the buckets of its key one after the other, or some in any order. A move copies a
// key to another bucket, then clears its old slot. So a lookup may see a key twice. That does no
// harm, since both copies have one value: nothing else changes a key while it moves. But a lookup
// may read bucket A before the key is copied there from B, and then read B after it was cleared,
// and see the key nowhere. Reading A again does not help if the key has moved on by then. So a key
// that is not found is looked up again if keys may have moved meanwhile.
//
// Blocks that move keys announce their beginning before, and their end after. If a lookup reads
// that no block is moving, misses keys, and then reads that none has begun since, it has missed
// nothing. That costs one read of a cached word for several keys of a lane together, and another
// one after a fence if some of them are missing. Answers that prove wrong are written again. Other
// missed keys are looked up again, each with its lock: if the lock's number is even, and the same
// before and after a search, the key has not moved meanwhile.
//
// The order of accesses. A lookup that misses a moved key has read its old slot after it was
// cleared. A move executes a fence before it clears a slot, after taking its lock, and after its
// block has added to moving(). So a thread that reads the cleared slot and then executes a fence
// will read that the block had begun, and that the lock was taken. At its end a block executes a
// fence before it adds to moving(): a lookup that acquires the sum sees all its moves. The lock is
// released by a release store, and a lookup acquires it, as with a sequence lock. The lanes of a
// tile read for each other. So syncs of the warp order what a lane has read of locks before what
// others read for it, and what they have read before its next read of locks. The tests of mutants
// cover what breaks this: a lookup that does not check, a block that announces too late, a move
// without its fence, lanes that do not sync.
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
      next = query<S, K, Lanes>(l, rank, at);  // prefetched while this one is looked up
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
