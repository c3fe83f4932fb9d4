// Locks of tables in which keys move.
//
// A lock is a number in a small array. The number is odd while the lock is taken. A lock protects
// all keys with the same first bucket, and all keys with first buckets that have the same low bits.
// A thread that holds a lock never waits for another lock. If it finds one taken, it releases its
// own lock and retries in another way. So two moves in opposite directions cannot deadlock.
#pragma once

#include "batch.cuh"

namespace weft {

// lock_of returns the lock of a bucket. A table has lock_mask + 1 locks, in t.locks.
template <class Table>
__device__ __forceinline__ uint32_t* lock_of(const Table& t, uint32_t bucket) {
  return t.locks + (bucket & t.lock_mask);
}

// kPause is the time in nanoseconds that a thread waits after it has found a lock taken.
constexpr uint32_t kPause = 100;

// try_lock tries to take a lock and reports success. It fails if another thread holds the lock.
__device__ __forceinline__ bool try_lock(uint32_t* lock) {
  uint32_t number = load_relaxed(lock);
  return number % 2 == 0 && cas_acquire(lock, number, number + 1) == number;
}
// unlock releases a lock. The lock changes to a number that it has not had recently.
__device__ __forceinline__ void unlock(uint32_t* lock) { store_release(lock, load_relaxed(lock) + 1); }

// moving returns a word that counts the blocks that move keys. Its upper half counts all blocks
// that have begun, and its lower half the blocks that still move keys. So the lower half never
// overflows. The words follow the locks. Each of the kCopies copies has its own line, because all
// warps that look up keys read one of them. A single word serves at most 1.7 * 10^9 reads a second.
constexpr uint32_t kCopies = 16, kCopyWords = 32;
template <class Table>
__device__ __forceinline__ uint64_t* moving(const Table& t, uint32_t copy) {
  return reinterpret_cast<uint64_t*>(t.locks + t.lock_mask + 1 + copy * kCopyWords);
}

// All threads of a block call begin_moving before the block moves keys, and end_moving afterwards.
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
// during these lookups.
constexpr uint32_t kLookups = 8;

// find_batch looks up the keys of a batch in a table in which keys may move. search(there, key,
// value) looks up the key of each lane with `there`, and returns whether it has found the key.
// retry_search does the same for the few keys that are looked up again, so it may be slower and
// have less code. lock(key) returns the lock of a key. All threads of the grid must call
// find_batch.
//
// A move copies a key to another bucket and then clears its old slot. A lookup reads the buckets of
// its key in some order, so it may find a moving key twice. That does no harm: both copies have the
// same value, because no other thread changes a key while it moves.
//
// But a lookup may also miss a key that moves. It may read bucket A before a move copies the key
// there from bucket B, and read B after the move has cleared the slot. To read A again does not
// help, because the key may have moved on. So if keys may have moved during a lookup, a missed key
// is looked up again.
//
// A block that moves keys adds to moving() before it begins and after it ends. Suppose that a
// lookup reads that no block is moving, misses keys, and then reads that no block has begun since.
// Then it has missed no moved key. This check costs one read of a cached word for several keys of a
// lane. If some of them are missed, it costs a fence and a second read. If a block may have moved
// keys, each missed key is looked up again under its lock's number. If the number is even, and is
// the same before and after a search, the key has not moved during the search. If the key is found,
// its answer is written again.
//
// The order of accesses is as follows. A lookup that misses a moved key has read its old slot after
// a move cleared the slot. Before that, the block had added to moving(), and the move had taken the
// lock of the key and then executed a fence. So suppose that a thread reads the cleared slot and
// then executes a fence. After that it reads that the block had begun, and that the lock was taken.
//
// At its end a block executes a fence before it adds to moving(). So a lookup that acquires the sum
// also reads the results of all moves of the block. A thread releases a lock by a release store,
// and a lookup acquires the lock, as with a sequence lock.
//
// The lanes of a tile read for each other, so syncs of the warp order their accesses. A first sync
// orders a lane's reads of locks before the reads that other lanes make for it. A second sync
// orders those reads before the lane's next reads of locks.
//
// Tests with mutants cover violations of this protocol. Examples are a lookup that does not check,
// a late announcement by a block, a move without its fence, and lanes that do not sync.
template <class S, class K, class V, int Lanes, class Table, class Lock, class Search, class Careful>
__device__ __forceinline__ void find_batch(const Table& t, const Lookup& l, Lock lock, Search search, Careful retry_search) {
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
      next = query<S, K, Lanes>(l, rank, at);  // prefetched during the lookup of the current query
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
      const bool hit = retry_search(looks, q.key, value);
      if (hit) tell<S, V>(l, q, hit, value), hits++;
      fence();
      sync_warp();
      if (hit || (looks && load_relaxed(own) == number)) missed &= missed - 1;
    }
  }
  if (l.hits) count_all(l.hits, hits);
}

}  // namespace weft
