// Atomic batches (redo.go, gpu_atomic.go). A batch runs on the mirror of the slots, which does not
// change except for free slots that new keys claim. Values go to the pool, where no lookup finds
// them, and the new state of slots is noted in memory of the device. If capacity suffices for all,
// the notes go to the redo log, one after the other. When the host has published the log, they go
// to the mirror. Slots of the pool follow, bucket by bucket: at once, or after later batches that
// may change some of them, too.
#pragma once

#include "space.cuh"

namespace weft::gphash {

// Entry is the new state of a slot.
struct Entry {
  uint64_t bucket;   // word of the pool
  uint64_t* words;   // its mirror
  uint64_t was;      // control word before: of a key, or claimed for one
  uint64_t becomes;  // control word after; 0: no entry
  uint64_t check;    // word with the value's checksum
  uint32_t slot;
  uint32_t unused;
};

struct RedoParams {
  Table table;
  Space space;
  Entry* entries;    // by the first position of a key among the sorted operations
  uint64_t records;  // word of the pool at which the records of the batch begin
  uint64_t* made;    // sum of their digests, and their number; added to
  uint64_t n;
  // buckets of the pool that lag the mirror, by their first word
  uint64_t* late;
  uint32_t* late_count;
  // a bit per possible bucket of a pool: it is listed
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

// Keys is where keys lie: in their slots, or in records with their values and checksums, with only
// the hash in the slot.
enum Keys { kInSlots, kInRecords };

// log writes records, and the checksums of values, often adjacent ones. Records come in any
// order: a block reserves places for all of its records at once.
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

// add appends the values of some lanes of a warp to a list.
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

// apply_batch makes a published batch visible to lookups, and leaves what it has replaced and
// deleted to the next one. The host tracks records by itself.
template <Keys K>
__device__ __forceinline__ void apply_batch(const RedoParams& p) {
  const Table& t = p.table;
  const Lists& l = p.space.lists;
  fence();  // a lookup that sees any of this also sees that a change has begun, and values and tags
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

// write_back writes the lagging buckets to the pool, control words and tags at once.
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
