// Atomic batches (redo.go, gpu_atomic.go). A batch runs on the mirror of the slots. The mirror does
// not change meanwhile, except for free slots that new keys claim. Values go to the pool, where no
// lookup finds them. The new states of slots are noted in device memory. If capacity suffices for
// all operations, the notes are written to the redo log, one after the other. After the host has
// published the log, the notes are applied to the mirror. The slots of the pool follow, bucket by
// bucket. They follow at once, or after later batches that may also change some of them.
#pragma once

#include "space.cuh"

namespace weft::gphash {

// Entry is the new state of a slot.
struct Entry {
  uint64_t bucket;   // index of the bucket's first word in the pool
  uint64_t* words;   // mirror of the bucket
  uint64_t was;      // old control word, of a key or of a claimed slot
  uint64_t becomes;  // new control word; 0: no entry
  uint64_t check;    // word with the value's checksum
  uint32_t slot;
  uint32_t unused;
};

struct RedoParams {
  Table table;
  Space space;
  Entry* entries;    // the index is the sorted position of a key's first operation
  uint64_t records;  // index of the pool's first word for the records of the batch
  uint64_t* made;    // the kernel adds the digests of the records, and their number
  uint64_t n;
  // buckets of the pool that lag the mirror, by index of their first word
  uint64_t* late;
  uint32_t* late_count;
  // one bit per possible bucket of a pool: whether `late` has the bucket
  uint32_t* late_bits;
};

constexpr uint32_t kRecordWords = 3;
constexpr uint64_t kRedoSeed = 0x9d39247e33776d41ul;  // twin: redoSeed in redo.go

// digest returns what a record adds to the checksum (twin: digest in redo.go).
__device__ __forceinline__ uint64_t digest(uint64_t number, const uint64_t* record) {
  for (uint32_t w = 0; w < kRecordWords; w++) number = hash(number ^ record[w], kRedoSeed);
  return number;
}

// entry_of returns entry i, or an empty one.
__device__ __forceinline__ Entry entry_of(const RedoParams& p, uint64_t i) {
  return i < p.n ? p.entries[i] : Entry{};
}

// Keys is the place of keys. With kInSlots, slots contain the keys. With kInRecords, records
// contain the keys with their values and checksums, and slots contain only hashes.
enum Keys { kInSlots, kInRecords };

// log writes the records of a batch, and the checksums of its values, which are often adjacent.
// Records come in any order, because a block reserves space for all of its records at once.
template <int Block, Keys K>
__device__ __forceinline__ void log(const RedoParams& p) {
  __shared__ Share<Block> share;
  __shared__ uint64_t records[kRecordWords * Block], base;
  const Table& t = p.table;
  for (uint64_t first = uint64_t(block_index()) * Block; first < p.n; first += threads_in_grid()) {
    const Entry e = entry_of(p, first + thread_in_block());
    uint32_t all, at = below(share, uint32_t(e.becomes != 0), all);
    if (thread_in_block() == 0) base = add_relaxed(p.made + 1, uint64_t(all));
    sync_block();
    uint64_t sum = 0;
    if (e.becomes != 0) {
      uint64_t* record = records + kRecordWords * at;
      record[0] = e.bucket + e.slot;
      record[1] = e.becomes;
      record[2] = load_relaxed_system(e.words + t.slots + e.slot);
      sum = digest(base + at, record);
      const Control becomes{e.becomes};
      if (K == kInSlots && becomes.state() == kFull) store_relaxed_system(t.pool + check_of(t, becomes.block()), e.check);
    }
#pragma unroll
    for (uint32_t x = 1; x < kWarp; x *= 2) sum += shuffle_xor(kAll, sum, x);
    if (lane_index() == 0 && sum != 0) add_relaxed(p.made, sum);
    sync_block();
    for (uint32_t i = thread_in_block(); i < kRecordWords * all; i += Block)
      store_relaxed_system(t.pool + p.records + kRecordWords * base + i, records[i]);
    sync_block();
  }
}

// add appends the values of the lanes with `has` to a list.
__device__ __forceinline__ void add(uint64_t* list, uint32_t* count, bool has, uint64_t what) {
  const uint32_t votes = ballot(kAll, has);
  if (votes == 0) return;
  uint32_t at = 0;
  if (lane_index() == lowest(votes)) at = add_relaxed(count, popcount(votes));
  at = shuffle(kAll, at, lowest(votes));
  if (has) store_relaxed(list + at + popcount(votes & ((1u << lane_index()) - 1)), what);
}

// mark_lagging marks a bucket of the pool as lagging the mirror, and reports whether it was marked
// before.
__device__ __forceinline__ bool mark_lagging(const RedoParams& p, uint64_t bucket) {
  const uint64_t i = bucket / p.table.bucket_words;
  const uint32_t bit = 1u << i % 32;
  return (or_relaxed(p.late_bits + i / 32, bit) & bit) != 0;
}

// apply_batch makes a published batch visible to lookups. It lists replaced values and deleted
// slots for the next batch. The host itself tracks the memory of records.
template <Keys K>
__device__ __forceinline__ void apply_batch(const RedoParams& p) {
  const Table& t = p.table;
  const Lists& l = p.space.lists;
  fence();  // a lookup that reads any of this also reads values, tags, and that a change has begun
  for (uint64_t first = thread_index() - lane_index(); first < p.n; first += threads_in_grid()) {
    const Entry e = entry_of(p, first + lane_index());
    const Control was{e.was}, becomes{e.becomes};
    const bool there = e.becomes != 0, replaces = there && was.state() == kFull;
    const bool full = there && becomes.state() == kFull, gone = there && !full;
    if (there) store_relaxed_system(e.words + e.slot, e.becomes);
    add(p.late, p.late_count, there && !mark_lagging(p, e.bucket), e.bucket);
    if (K == kInSlots && full) mark(t, p.space, becomes.block(), true);
    if (K == kInSlots) add(l.stale, l.counts, replaces, was.block());
    add(l.tombs, l.counts + 1, gone, e.bucket + e.slot);
    const uint32_t came = popcount(ballot(kAll, full && !replaces)), went = popcount(ballot(kAll, gone));
    if (lane_index() != 0 || came + went == 0) continue;
    add_relaxed(&t.counters->live, uint64_t(came) - went);
    if (came != 0) add_relaxed(&t.counters->used, uint64_t(came));
  }
}

// write_back writes the control words and tags of the lagging buckets to the pool.
__device__ __forceinline__ void write_back(const RedoParams& p) {
  const Table& t = p.table;
  const uint32_t words = 2 * t.slots;
  const uint64_t n = uint64_t(load_relaxed(p.late_count)) * words;
  for (uint64_t i = thread_index(); i < n; i += threads_in_grid()) {
    const uint64_t bucket = p.late[i / words], number = bucket / t.bucket_words;
    const uint32_t word = uint32_t(i % words);
    store_relaxed_system(t.pool + bucket + word, load_relaxed_system(read_at(t, bucket) + word));
    if (word == 0) and_relaxed(p.late_bits + number / 32, ~(1u << number % 32));
  }
}

// undo releases the slots that a refused batch has claimed.
__device__ __forceinline__ void undo(const RedoParams& p) {
  const Table& t = p.table;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const Entry e = p.entries[i];
    const Control was{e.was};
    if (e.becomes == 0 || was.state() != kWriting) continue;
    store_relaxed_system(t.pool + e.bucket + e.slot, was.next(kEmpty, 0).bits);
    store_relaxed_system(e.words + e.slot, was.next(kEmpty, 0).bits);
  }
}

}  // namespace weft::gphash
