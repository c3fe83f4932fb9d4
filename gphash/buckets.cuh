// Kernels that read, move or empty whole tables. A warp works on one bucket of a level at a time.
#pragma once

#include "change.cuh"

namespace weft::gphash {

struct BucketsParams {
  Table table;
  Export to;           // destination of an export
  uint64_t lo, hi;     // buckets [lo,hi)
  uint32_t level;      // level of these buckets
  uint32_t unused;
  uint32_t* crowded;   // set if a key finds no slot
};

// each_bucket calls f(place) for each bucket, one bucket per warp. In lane i, the place is slot i
// of the bucket, with its control word if the slot exists.
template <class F>
__device__ __forceinline__ void each_bucket(const BucketsParams& p, F f) {
  const Table& t = p.table;
  const Level& l = t.levels[p.level];
  for (uint64_t b = p.lo + thread_index() / kWarp; b < p.hi; b += threads_in_grid() / kWarp) {
    Place at{l.base + b * t.bucket_words, nullptr, lane_index(), {0}};
    at.words = words_of(t, l, b);
    if (at.slot < t.slots) at.was.bits = load_relaxed_system((l.mirror ? at.words : t.pool + at.bucket) + at.slot);
    f(at);
  }
}

// tag_of returns the tag of a slot. It reads the mirror if the mirror exists.
__device__ __forceinline__ uint64_t tag_of(const Table& t, const BucketsParams& p, const Place& at) {
  return load_relaxed_system((t.levels[p.level].mirror ? at.words : t.pool + at.bucket) + t.slots + at.slot);
}

// slot_of returns slot number `slot` of a bucket, for all lanes.
__device__ __forceinline__ Place slot_of(const Place& at, uint32_t slot) {
  return {at.bucket, at.words, slot, {shuffle(kAll, at.was.bits, slot)}};
}

// move_up moves the keys of a level's buckets to open levels. Each key is durable in its new slot
// before its old slot is deleted.
template <Keys K>
__device__ __forceinline__ void move_up(const BucketsParams& p) {
  const Table& t = p.table;
  fence();
  each_bucket(p, [&](const Place& lane) WEFT_INLINE {
    for (uint32_t votes = ballot(kAll, lane.was.state() == kFull); votes != 0; votes &= votes - 1) {
      Place from = slot_of(lane, lowest(votes)), to;
      const uint64_t tag = load_relaxed_system(t.pool + from.tag(t));
      auto word = [&](uint32_t i) WEFT_INLINE { return t.key_words ? load_relaxed_system(t.pool + from.key(t) + i) : tag; };
      const uint64_t hash = hash_of<K>(t, tag, word);
      bool taken = false;
      while (vacant(t, read_open_slots<kInOrder>(t, hash), to))
        if ((taken = claim(t, to))) break;
      if (!taken) {
        store_relaxed(p.crowded, 1u);
        return;
      }
      write_slot(t, to, tag, word);
      publish(t, to, from.was.block());
      if (lane_index() == 0) {
        fence_durable(t);
        say(t, from, from.was.next(kTomb, 0));
      }
      sync_warp();
    }
  });
}

}  // namespace weft::gphash
