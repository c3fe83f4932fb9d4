// Inspection by a GPU of a pool that has just been opened. It frees the slots of unpublished
// insertions, tombstones, and second copies of keys that were moving. It computes which memory of
// values is in use. It also counts slots with contents that no operation writes, which the host
// then reports (recover.go). Control words and tags cross the bus once, in sequence, to the mirror.
// The mirror exists at least during the inspection. The search for other copies of a slot's key
// reads the mirror.
#pragma once

#include "space.cuh"

namespace weft::gphash {

struct Found {
  uint64_t keys, unfinished, tombs, moved;
  uint64_t odd;  // slots that the host must inspect
};

struct SurveyParams {
  Table table;
  Space space;
  Found* found;  // the kernel adds to these counts
  uint32_t level;
  uint32_t unused;
};

// at_home reports whether the key of a slot belongs to its bucket, and whether the tag belongs to
// the key.
__device__ __forceinline__ bool at_home(const Table& t, const Level& l, uint64_t bucket, uint64_t tag, uint64_t key, uint64_t& hash) {
  // No thread writes keys meanwhile. An ordinary load leaves the rest of a sector in the cache for
  // the next load.
  hash = hash_key(t, [&](uint32_t i) WEFT_INLINE { return t.key_words ? t.pool[key + i] : tag; });
  if (t.key_words != 0 && tag != hash) return false;
  if (t.key_words == 0 && t.key_size < 8 && tag >> 8 * t.key_size != 0) return false;
  bool home = false;
  for (uint32_t j = 0; j < t.hashes; j++) home |= bucket_of(l, hash, j) == bucket;
  return home;
}

// use marks the value of a key as in use. It returns false if no value begins at `block`, or if
// another key uses the value.
__device__ __forceinline__ bool use(const Table& t, const Space& s, uint64_t block, uint32_t region) {
  if (block < t.first) return false;
  Located v = locate(t, block);
  if (v.unit >= s.units || v.i >= t.per) return false;
  if (t.first + v.unit * t.unit + t.at + uint64_t(v.i) * t.value_words != block) return false;
  uint32_t owner = load_relaxed(s.owners + v.unit);
  if (owner == kNobody) owner = cas_relaxed(s.owners + v.unit, uint32_t(kNobody), kOfRegion + region);
  if (owner == kOfLevel) return false;
  const uint64_t bit = 1ul << v.i % 64;
  return (or_relaxed(s.used + v.unit * s.words + v.i / 64, bit) & bit) == 0;
}

// Twin describes another slot with the same key, in which the key is valid.
enum Twin : uint32_t { kNoTwin, kMovedTwin, kOddTwin };

// turn returns the position of a level in the search for a key (twin: table.eachBucket).
__device__ __forceinline__ uint32_t turn(const Table& t, uint32_t level) {
  const uint32_t open = t.live - t.closed;
  return level < open ? level + t.closed : level - open;
}

// twin_of searches for the key of slot number `slot` of a bucket. It searches the slots that a
// lookup reads before that slot. A crash during a move leaves a twin with the same value. A twin
// with another value is damage. The first of several twins stays: its own search finds no twin. The
// searches of the other twins find at least this one, whatever happens to the twins in between.
__device__ __forceinline__ Twin twin_of(const Table& t, uint32_t level, uint64_t bucket, uint32_t slot, Control c, uint64_t tag, uint64_t hash) {
  const uint64_t key = t.levels[level].base + bucket * t.bucket_words + 2 * t.slots + slot * t.key_words;
  for (uint32_t i = 0; i < t.live; i++) {
    if (turn(t, i) > turn(t, level)) continue;
    const Level& l = t.levels[i];
    for (uint32_t j = 0; j < t.hashes; j++) {
      const uint64_t b = bucket_of(l, hash, j);
      if (i == level && b > bucket) continue;
      const uint64_t* words = words_of(t, l, b);
      const uint32_t slots = i == level && b == bucket ? slot : t.slots;
      for (uint32_t s = 0; s < slots; s++) {
        if (load_relaxed_system(words + t.slots + s) != tag) continue;
        const Control other{load_relaxed_system(words + s)};
        const uint64_t theirs = l.base + b * t.bucket_words + 2 * t.slots + s * t.key_words;
        bool same = other.state() == kFull;
        for (uint32_t w = 0; w < t.key_words; w++) same = same && t.pool[theirs + w] == t.pool[key + w];
        if (same) return other.block() == c.block() ? kMovedTwin : kOddTwin;
      }
    }
  }
  return kNoTwin;
}

// add adds the counts of a warp's lanes to a counter.
__device__ __forceinline__ void add(uint64_t* to, uint32_t n) {
  for (uint32_t x = 1; x < kWarp; x *= 2) n += shuffle_xor(kAll, n, x);
  if (lane_index() == 0 && n != 0) add_relaxed(to, uint64_t(n));
}

// survey inspects the slots of a level, one per thread.
__device__ __forceinline__ void survey(const SurveyParams& p) {
  const Table& t = p.table;
  const Level& l = t.levels[p.level];
  const uint64_t slots = uint64_t(t.slots) << l.bits;
  uint32_t keys = 0, unfinished = 0, tombs = 0, moved = 0, odd = 0;
  for (uint64_t i = thread_index(); i < slots; i += threads_in_grid()) {
    const uint64_t b = i / t.slots, bucket = l.base + b * t.bucket_words;
    const uint32_t slot = uint32_t(i - b * t.slots);
    uint64_t* words = words_of(t, l, b);
    const Control c{load_relaxed_system(words + slot)};
    bool free = false;
    if (c.state() == kFull) {
      const uint64_t tag = load_relaxed_system(words + t.slots + slot);
      uint64_t hash;
      const bool home = at_home(t, l, b, tag, bucket + 2 * t.slots + slot * t.key_words, hash);
      const Twin twin = home ? twin_of(t, p.level, b, slot, c, tag, hash) : kOddTwin;
      free = twin == kMovedTwin;
      const bool good = twin == kNoTwin && use(t, p.space, c.block(), uint32_t(hash >> (64 - kRegionBits)));
      keys += good, moved += free, odd += !free && !good;
    } else if (c.block() != 0) {
      odd++;
    } else if (c.state() != kEmpty) {
      free = true;
      unfinished += c.state() == kWriting, tombs += c.state() == kTomb;
    }
    if (!free) continue;
    const uint64_t empty = c.next(kEmpty, 0).bits;
    store_relaxed_system(t.pool + bucket + slot, empty);
    if (l.mirror) store_relaxed_system(words + slot, empty);
  }
  add(&p.found->keys, keys);
  add(&p.found->unfinished, unfinished);
  add(&p.found->tombs, tombs);
  add(&p.found->moved, moved);
  add(&p.found->odd, odd);
}

// intact reports whether a value matches the checksum that was written for a key with this hash.
// All lanes of a warp execute it.
__device__ __forceinline__ bool intact(const Table& t, Control c, uint64_t hash) {
  if (!sound(t, c)) return false;
  const uint64_t block = c.block();
  const uint32_t crc = crc32c_warp(t.value_size, [&](uint32_t i) WEFT_INLINE { return uint32_t(t.pool[block + i / 2] >> 32 * (i % 2)); });
  return load_relaxed_system(t.pool + check_of(t, block)) == check_word(t, block, hash, crc);
}

// verify counts the values of a level that do not match their checksums. It runs before any other
// inspection of the slots, with one warp per bucket.
__device__ __forceinline__ void verify(const SurveyParams& p) {
  const Table& t = p.table;
  const Level& l = t.levels[p.level];
  uint32_t odd = 0;
  for (uint64_t b = thread_index() / kWarp; b < 1ul << l.bits; b += threads_in_grid() / kWarp) {
    const uint64_t* words = words_of(t, l, b);
    const uint32_t lane = lane_index();
    Control mine{0};
    uint64_t tag = 0;
    if (lane < t.slots) mine.bits = load_relaxed_system(words + lane), tag = load_relaxed_system(words + t.slots + lane);
    for (uint32_t votes = ballot(kAll, mine.state() == kFull); votes != 0; votes &= votes - 1) {
      const Control c{shuffle(kAll, mine.bits, lowest(votes))};
      const uint64_t of = shuffle(kAll, tag, lowest(votes));
      const uint64_t hash = t.key_words ? of : hash_key(t, [&](uint32_t) WEFT_INLINE { return of; });
      odd += !intact(t, c, hash);
    }
  }
  if (lane_index() == 0 && odd != 0) add_relaxed(&p.found->odd, uint64_t(odd));
}

}  // namespace weft::gphash
