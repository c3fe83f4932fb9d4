// What a GPU does with a pool that has just been opened: it frees slots that insertions had taken
// and not published, and tombs, finds out which memory of values is in use, and whether anything is
// there that no operation writes. What that is, the host says (recover.go).
#pragma once

#include "space.cuh"

namespace weft::gphash {

struct Found {
  uint64_t keys, unfinished, tombs;
  uint64_t odd;  // slots for the host to look at
};

struct SurveyParams {
  Table table;
  Space space;
  Found* found;  // added to
  uint32_t level;
  uint32_t unused;
};

// at_home reports whether the key of a slot belongs to its bucket, and its tag to the key.
__device__ __forceinline__ bool at_home(const Table& t, const Level& l, uint64_t bucket, uint64_t tag, uint64_t key, uint64_t& hash) {
  hash = hash_key(t, [&](uint32_t i) WEFT_INLINE { return t.key_words ? load_relaxed_system(t.pool + key + i) : tag; });
  if (t.key_words != 0 && tag != hash) return false;
  if (t.key_words == 0 && t.key_size < 8 && tag >> 8 * t.key_size != 0) return false;
  bool home = false;
  for (uint32_t j = 0; j < t.hashes; j++) home |= bucket_of(l, hash, j) == bucket;
  return home;
}

// use marks the value of a key as in use. It reports false where none begins, or that of another
// key.
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

// survey goes through the slots of a level, one a thread.
__device__ __forceinline__ void survey(const SurveyParams& p) {
  const Table& t = p.table;
  const Level& l = t.levels[p.level];
  const uint64_t slots = uint64_t(t.slots) << l.bits;
  for (uint64_t first = uint64_t(block_index()) * threads_per_block(); first < slots; first += threads_in_grid()) {
    const uint64_t i = first + thread_in_block(), b = i / t.slots, bucket = l.base + b * t.bucket_words, at = bucket + i % t.slots;
    const Control c{i < slots ? load_relaxed_system(t.pool + at) : 0};
    bool full = false, odd = false;
    if (c.state() == kFull) {
      const uint64_t tag = load_relaxed_system(t.pool + at + t.slots);
      uint64_t hash;
      full = at_home(t, l, b, tag, bucket + 2 * t.slots + i % t.slots * t.key_words, hash);
      full = full && use(t, p.space, c.block(), uint32_t(hash >> (64 - kRegionBits)));
      odd = !full;
    } else if (c.block() != 0) {
      odd = true;
    } else if (c.state() != kEmpty) {
      store_relaxed_system(t.pool + at, c.next(kEmpty, 0).bits);
    }
    count(&p.found->keys, full);
    count(&p.found->unfinished, c.state() == kWriting && !odd);
    count(&p.found->tombs, c.state() == kTomb && !odd);
    count(&p.found->odd, odd);
  }
}

}  // namespace weft::gphash
