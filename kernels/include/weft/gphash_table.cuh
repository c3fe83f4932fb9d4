// The table of package gphash: levels of buckets in a pool, which is host memory that outlives the
// process. Optionally, device memory has a mirror of the slots. layout.go explains the words of a
// slot. table.go explains the order in which the words are read.
//
// A warp works on one key at a time. It reads all slots that may hold the key at once (GPHash,
// section 3.1).
#pragma once

#include "batch.cuh"
#include "siphash.cuh"

// WEFT_INLINE makes lambdas inline. Otherwise clang would copy what a lambda refers to.
#define WEFT_INLINE __attribute__((always_inline))

namespace weft::gphash {

// State of a slot (twin: layout.go).
enum State : uint32_t { kEmpty, kWriting, kFull, kTomb };

// Control is the word of a slot that changes: state, version, and the word at which the value
// begins.
struct Control {
  uint64_t bits;

  static constexpr uint32_t kBlockBits = 48, kVersionBits = 14;

  __device__ __forceinline__ uint32_t state() const { return uint32_t(bits >> (kBlockBits + kVersionBits)); }
  __device__ __forceinline__ uint64_t block() const { return bits & ((1ul << kBlockBits) - 1); }
  // next returns the word after a change.
  __device__ __forceinline__ Control next(State s, uint64_t block) const {
    uint64_t version = ((bits >> kBlockBits) + 1) & ((1u << kVersionBits) - 1);
    return {uint64_t(s) << (kBlockBits + kVersionBits) | version << kBlockBits | block};
  }
};

// Level is 2^bits buckets.
struct Level {
  uint64_t base;     // index of the level's first word in the pool
  uint64_t* mirror;  // contiguous buckets of control words and tags, or null
  uint32_t* cached;  // per bucket: its index in the cache, or kNotCached; or null
  uint32_t* heat;    // per bucket: how often, or when, it was read; used with `cached`
  uint32_t bits;
  uint32_t regions;  // log2 of the number of regions
};

constexpr uint32_t kNotCached = ~0u;

// Policy selects what the cache keeps (section 3.3; twin: CachePolicy in cache.go).
enum Policy : uint32_t { kLFU, kLRU, kRandom };

// Clocks report concurrent activity to lookups.
struct Clocks {
  uint32_t begun, ended;              // number of the last begun change, and of the last ended one
  uint32_t moves_begun, moves_ended;  // numbers of begun and ended moves that make room for keys
};

// Table describes an index (Go: tableRef).
struct Table {
  uint64_t* pool;  // word 0 of the pool
  Counters* counters;
  Clocks* clocks;
  uint64_t seed0, seed1;
  uint64_t first;  // index of the word where unit 0 of the values begins
  // Number of words from `first` on where a value may begin and still end inside the pool.
  uint64_t span;
  uint32_t fast;   // not 0: use the fast hash, for trusted keys
  uint32_t key_size, value_size;    // bytes
  // Words of a key in its slot, or 0 if the tag is the key; words of a value.
  uint32_t key_words, value_words;
  uint32_t slots, hashes, bucket_words;
  uint32_t unit, per, at;  // words per unit, values per unit, words of a unit before its values
  uint32_t live, closed;   // number of levels; number of drained levels, which are the last ones
  uint32_t unfenced;       // not 0: without durability fences, to measure their cost
  const Level* levels;
  uint64_t* cache;       // words of the cached buckets, or of the cached values
  // Number of buckets or values that lookups have read, and how many of these were in the cache.
  // null: no cache.
  uint64_t* cache_read;
  uint32_t policy, now;  // policy of the cache; number of its next load
  // Per value of the pool: its index in the cache, or kNotCached. null: the cache holds no values.
  uint32_t* cached;
  uint32_t* heat;        // per value: how often, or when, it was read; used with `cached`
};

// fence_durable orders durability. If a crash keeps what a thread writes after the fence, it also
// keeps all that the thread has written or read before.
__device__ __forceinline__ void fence_durable(const Table& t) {
  if (t.unfenced == 0) fence_system();
}

// ---- rows of columns ---------------------------------------------------------

// row_word returns word i of a row of `size` bytes, padded with zeros.
__device__ __forceinline__ uint64_t row_word(const uint8_t* row, uint32_t size, uint32_t i) {
  const uint8_t* at = row + 8ul * i;
  const uint64_t shape = uint64_t(row) | size;
  if ((shape & 7) == 0) return *reinterpret_cast<const uint64_t*>(at);
  uint32_t n = size - 8 * i < 8 ? size - 8 * i : 8;
  uint64_t w = 0;
  if ((shape & 3) == 0) {
    w = *reinterpret_cast<const uint32_t*>(at);
    if (n > 4) w |= uint64_t(*reinterpret_cast<const uint32_t*>(at + 4)) << 32;
    return w;
  }
  for (uint32_t b = 0; b < n; b++) w |= uint64_t(at[b]) << 8 * b;
  return w;
}

// put_word writes word i of a row, up to the end of the row.
__device__ __forceinline__ void put_word(uint8_t* row, uint32_t size, uint32_t i, uint64_t w) {
  uint8_t* at = row + 8ul * i;
  const uint64_t shape = uint64_t(row) | size;
  if ((shape & 7) == 0) {
    *reinterpret_cast<uint64_t*>(at) = w;
    return;
  }
  uint32_t n = size - 8 * i < 8 ? size - 8 * i : 8;
  if ((shape & 3) == 0) {
    *reinterpret_cast<uint32_t*>(at) = uint32_t(w);
    if (n > 4) *reinterpret_cast<uint32_t*>(at + 4) = uint32_t(w >> 32);
    return;
  }
  for (uint32_t b = 0; b < n; b++) at[b] = uint8_t(w >> 8 * b);
}

// same_row reports whether two rows of `size` bytes are equal.
__device__ __forceinline__ bool same_row(const uint8_t* a, const uint8_t* b, uint32_t size) {
  for (uint32_t i = 0; 8 * i < size; i++)
    if (row_word(a, size, i) != row_word(b, size, i)) return false;
  return true;
}

// ---- keys ----------------------------------------------------------------------

// Item is a key, its hash, and the tag that slots store for the key.
struct Item {
  const uint8_t* key;
  uint64_t hash, tag;
};

// hash_key hashes a key. word(i) reads word i of the key.
template <class Word>
__device__ __forceinline__ uint64_t hash_key(const Table& t, Word word) {
  return t.fast ? fast_hash(t.seed0, t.seed1, t.key_size, word) : sip13(t.seed0, t.seed1, t.key_size, word);
}

__device__ __forceinline__ uint64_t hash_row(const Table& t, const uint8_t* key) {
  return hash_key(t, [&](uint32_t i) WEFT_INLINE { return row_word(key, t.key_size, i); });
}

__device__ __forceinline__ Item item_of(const Table& t, const uint8_t* key, uint64_t hash) {
  return {key, hash, t.key_words ? hash : row_word(key, t.key_size, 0)};
}

// multiplier returns the multiplier for hash function j (twin: multipliers in layout.go).
__device__ __forceinline__ uint64_t multiplier(uint32_t j) {
  switch (j) {
    case 0: return 0x9e3779b97f4a7c15ul;
    case 1: return 0xd1b54a32d192ed03ul;
    case 2: return 0xaef17502108ef2d9ul;
    default: return 0xbea225f9eb34556dul;
  }
}

// bucket_of returns the number of a key's candidate bucket in a level by hash function j (twin:
// level.bucket in layout.go).
__device__ __forceinline__ uint64_t bucket_of(const Level& l, uint64_t h, uint32_t j) {
  if (l.bits == 0) return 0;
  uint64_t other = ((h << 32 | h >> 32) ^ l.bits) * multiplier(j);
  other ^= other >> 29;
  other *= multiplier(0);
  return ((h & ~(~0ul >> l.regions)) | other >> l.regions) >> (64 - l.bits);
}

// ---- slots -----------------------------------------------------------------------

// Seen is a slot as its lane has read it.
struct Seen {
  bool there;       // whether the lane has a slot
  uint32_t slot;    // index of the slot in its bucket
  uint64_t bucket;  // index of the bucket's first word in the pool
  uint64_t* words;  // where the control words of the bucket are read, followed by its tags
  Control control;
  uint64_t tag;
};

// Reading is the order in which a lane reads the words of a slot.
enum Reading {
  kAtOnce,    // all at once: correct while nothing changes
  kInOrder,   // the control word first
};

// words_of returns where the control words and tags of a bucket are read: in the mirror, the cache
// or the pool.
__device__ __forceinline__ uint64_t* words_of(const Table& t, const Level& l, uint64_t b) {
  if (l.mirror) return l.mirror + b * 2 * t.slots;
  if (l.cached) {
    const uint32_t y = load_acquire(l.cached + b);  // pairs with cache_fill
    if (y != kNotCached) return t.cache + uint64_t(y) * 2 * t.slots;
  }
  return t.pool + l.base + b * t.bucket_words;
}

// touch records a read of a bucket or value that may be in the cache.
__device__ __forceinline__ void touch(const Table& t, uint32_t* heat) {
  if (t.policy == kLFU) add_relaxed(heat, 1u);
  if (t.policy == kLRU && load_relaxed(heat) != t.now) store_relaxed(heat, t.now);
}

// warm records reads of buckets, at most one per lane.
__device__ __forceinline__ void warm(const Table& t, const Level& l, const Seen& s, uint64_t b) {
  const bool reads = s.there && s.slot == 0;
  if (reads) touch(t, l.heat + b);
  const uint32_t all = ballot(kAll, reads), cached = ballot(kAll, reads && s.words != t.pool + s.bucket);
  if (lane_index() == 0) add_relaxed(t.cache_read, uint64_t(popcount(all)));
  if (lane_index() == 0 && cached != 0) add_relaxed(t.cache_read + 1, uint64_t(popcount(cached)));
}

// see reads all slots of levels [lo,hi) that may hold a key, one slot per lane of a warp. The
// number of these slots must not exceed the number of lanes.
template <Reading R>
__device__ __forceinline__ Seen see(const Table& t, uint64_t hash, uint32_t lo, uint32_t hi) {
  const uint32_t lane = lane_index(), per = t.slots * t.hashes;
  const uint32_t k = lane / per, j = lane % per / t.slots;
  Seen s{lo + k < hi, lane % per % t.slots, 0, nullptr, {0}, 0};
  const Level& l = t.levels[s.there ? lo + k : lo];
  uint64_t b = bucket_of(l, hash, j);
  for (uint32_t i = 0; i + 1 < t.hashes; i++) {  // read a bucket once if two functions select it
    uint64_t other = shuffle(kAll, b, s.there ? k * per + i * t.slots : 0);
    if (i < j && other == b) s.there = false;
  }
  if (s.there) s.bucket = l.base + b * t.bucket_words, s.words = words_of(t, l, b);
  if (R == kAtOnce && t.cache_read && t.cached == nullptr) warm(t, l, s, b);
  if (!s.there) return s;
  if (R == kInOrder) s.control.bits = load_acquire_system(s.words + s.slot);
  else s.control.bits = load_relaxed_system(s.words + s.slot);
  // A lane that waits for the control word does not read the tag of a slot without a key. So the
  // tags of empty buckets stay off the bus.
  if (R == kAtOnce || s.control.state() == kFull) s.tag = load_relaxed_system(s.words + t.slots + s.slot);
  return s;
}

// Place is a slot, the same in all lanes of a warp.
struct Place {
  uint64_t bucket;
  uint64_t* words;
  uint32_t slot;
  Control was;

  // The following functions return the index in the pool of the words of a slot.
  __device__ __forceinline__ uint64_t control() const { return bucket + slot; }
  __device__ __forceinline__ uint64_t tag(const Table& t) const { return bucket + t.slots + slot; }
  __device__ __forceinline__ uint64_t key(const Table& t) const { return bucket + 2 * t.slots + uint64_t(slot) * t.key_words; }
  // mirrored reports whether the slot is read elsewhere than in the pool.
  __device__ __forceinline__ bool mirrored(const Table& t) const { return words != t.pool + bucket; }
};

__device__ __forceinline__ Place place_of(const Seen& s, uint32_t lane) {
  return {shuffle(kAll, s.bucket, lane), reinterpret_cast<uint64_t*>(shuffle(kAll, uint64_t(s.words), lane)),
          shuffle(kAll, s.slot, lane), {shuffle(kAll, s.control.bits, lane)}};
}

// same_key compares the key of a slot with that of an item with the same tag.
__device__ __forceinline__ bool same_key(const Table& t, const Place& at, const Item& it) {
  uint32_t lane = lane_index();
  bool differs = lane < t.key_words && load_relaxed_system(t.pool + at.key(t) + lane) != row_word(it.key, t.key_size, lane);
  return ballot(kAll, differs) == 0;
}

// sound reports whether a value may begin where a control word points. Operations write only such
// control words. Other writers may have stored other words since the pool was opened. All
// operations treat a slot that is not sound as a slot without a key.
__device__ __forceinline__ bool sound(const Table& t, Control c) { return c.block() - t.first < t.span; }

// pick finds the slot with the key of an item, among the slots that the lanes have read.
__device__ __forceinline__ bool pick(const Table& t, const Seen& s, const Item& it, Place& at) {
  uint32_t votes = ballot(kAll, s.there && s.tag == it.tag && s.control.state() == kFull);
  sync_warp();  // orders reads of the slot after its control word; shuffles do not
  for (; votes != 0; votes &= votes - 1) {
    at = place_of(s, lowest(votes));
    if (sound(t, at.was) && (t.key_words == 0 || same_key(t, at, it))) return true;
  }
  return false;
}

// read_open_slots is see for the levels that take new keys.
template <Reading R>
__device__ __forceinline__ Seen read_open_slots(const Table& t, uint64_t hash) {
  return see<R>(t, hash, 0, t.live - t.closed);
}

// search finds the slot of a key. If it finds none, `open` holds the slots of the levels that take
// new keys. search reads the drained levels first. So if a key moves up meanwhile, search finds the
// key in its old or in its new slot.
template <Reading R>
__device__ __forceinline__ bool search(const Table& t, const Item& it, Place& at, Seen& open) {
  const uint32_t at_once = kWarp / (t.slots * t.hashes);
  for (uint32_t lo = t.live - t.closed; lo < t.live; lo += at_once)
    if (pick(t, see<R>(t, it.hash, lo, lo + at_once < t.live ? lo + at_once : t.live), it, at)) return true;
  open = read_open_slots<R>(t, it.hash);
  return pick(t, open, it, at);
}

// vacant finds a free slot in the bucket with the most free slots, among the slots that the lanes
// have read (section 3.1).
__device__ __forceinline__ bool vacant(const Table& t, const Seen& s, Place& at) {
  const uint32_t buckets = (t.live - t.closed) * t.hashes;
  uint32_t votes = ballot(kAll, s.there && s.control.state() == kEmpty), most = 0, best = 0;
  for (uint32_t b = 0; b < buckets; b++) {
    uint32_t free = votes >> b * t.slots & uint32_t((1ul << t.slots) - 1);
    if (popcount(free) > most) most = popcount(free), best = b * t.slots + lowest(free);
  }
  if (most == 0) return false;
  at = place_of(s, best);
  return true;
}

// ---- values ------------------------------------------------------------------------

// Located is the place of a value: its unit, and its number in the unit.
struct Located {
  uint64_t unit;
  uint32_t i;
};
// locate returns the place of the value that begins at word `block`. For other sound blocks, it
// returns the place of some value in the pool.
__device__ __forceinline__ Located locate(const Table& t, uint64_t block) {
  uint64_t unit = (block - t.first) / t.unit;
  uint32_t at = uint32_t((block - t.first) - unit * t.unit), i = (at - t.at) / t.value_words;
  return {unit, i < t.per ? i : t.per - 1};
}

// number_of returns the number of a value among all values that fit into the pool.
__device__ __forceinline__ uint64_t number_of(const Table& t, uint64_t block) {
  const Located v = locate(t, block);
  return v.unit * t.per + v.i;
}

// copy_value copies the words of a value to a row of a column, unless row is null.
__device__ __forceinline__ void copy_value(const Table& t, const uint64_t* words, uint8_t* row) {
  if (row == nullptr) return;
  for (uint32_t i = lane_index(); i < t.value_words; i += kWarp) put_word(row, t.value_size, i, load_relaxed_system(words + i));
}

// warm_value records a read of a value.
__device__ __forceinline__ void warm_value(const Table& t, uint64_t block) {
  if (lane_index() == 0) touch(t, t.heat + number_of(t, block));
}

// warm_buckets records reads of the buckets of a key.
__device__ __forceinline__ void warm_buckets(const Table& t, uint64_t hash) {
  for (uint32_t i = lane_index(); i < t.live * t.hashes; i += kWarp) {
    const Level& l = t.levels[i / t.hashes];
    const uint64_t b = bucket_of(l, hash, i % t.hashes);
    bool first = true;
    for (uint32_t j = 0; j < i % t.hashes; j++) first &= bucket_of(l, hash, j) != b;
    if (first) touch(t, l.heat + b);
  }
}

// read_value is copy_value for a value that does not change meanwhile. It reads the value from the
// cache if possible, and reports whether it did so.
__device__ __forceinline__ bool read_value(const Table& t, uint64_t block, uint8_t* row) {
  uint32_t y = kNotCached;
  if (t.cached && row) y = load_acquire(t.cached + number_of(t, block));  // pairs with cache_fill
  const bool cached = y != kNotCached;
  copy_value(t, cached ? t.cache + uint64_t(y) * t.value_words : t.pool + block, row);
  return cached;
}

__device__ __forceinline__ void clear_value(const Table& t, uint8_t* row) {
  if (row == nullptr) return;
  for (uint32_t i = lane_index(); i < t.value_words; i += kWarp) put_word(row, t.value_size, i, 0);
}

// ---- lookups -------------------------------------------------------------------------

// get looks up a key and copies its value to a row. The first attempt reads all words of the key's
// slots at once, and none twice. If something changed meanwhile, get retries. A retry reads the
// words of a slot in order, and the value in the pool.
__device__ __forceinline__ bool get(const Table& t, const Item& it, uint8_t* row, bool& cached) {
  Place at;
  Seen open;
  uint32_t quiet = load_acquire(&t.clocks->ended);
  bool hit = search<kAtOnce>(t, it, at, open);
  cached = hit && read_value(t, at.was.block(), row);
  if (hit && t.cached && row) warm_value(t, at.was.block());
  fence();
  if (ballot(kAll, load_relaxed(&t.clocks->begun) != quiet) == 0) return hit;
  cached = false;
  for (;;) {
    uint32_t moved = load_acquire(&t.clocks->moves_ended);
    hit = search<kInOrder>(t, it, at, open);
    if (hit) copy_value(t, t.pool + at.was.block(), row);
    fence();
    bool changed = hit ? load_relaxed_system(at.words + at.slot) != at.was.bits
                       : load_relaxed(&t.clocks->moves_begun) != moved;
    if (ballot(kAll, changed) == 0) return hit;
  }
}

}  // namespace weft::gphash
