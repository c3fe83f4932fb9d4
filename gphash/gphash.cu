// Kernels of package gphash: a hash index in host memory that outlives the process. doc.go explains
// the structure, and layout.go explains the memory. change.go explains why a crash at any store
// leaves the index intact.
#include "buckets.cuh"
#include "lookup.cuh"
#include "survey.cuh"
#include "tuning.cuh"

namespace weft::gphash {

// ---- clocks ---------------------------------------------------------------------

struct TickParams {
  uint32_t* clock;
  uint32_t now;
  uint32_t unfenced;  // as in Table
};

// tick sets a clock that concurrent lookups read. Before that, it makes the stores of previous
// launches durable.
__device__ __forceinline__ void tick(const TickParams& p) {
  if (p.unfenced == 0) fence_system();
  if (thread_index() == 0) store_release(p.clock, p.now);
}

// ---- keys -----------------------------------------------------------------------

struct HashParams {
  Table table;
  const uint8_t* keys;
  uint64_t* hashes;
  uint32_t* prefixes;
  uint64_t n;
};

__device__ __forceinline__ void hash_keys(const HashParams& p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    uint64_t h = hash_row(p.table, p.keys + i * p.table.key_size);
    p.hashes[i] = h;
    p.prefixes[i] = uint32_t(h >> 32);
  }
}

struct RankParams {
  const uint32_t* prefixes;
  uint32_t* sorted;
  uint32_t* rows;
  uint64_t n;
};

// rank sorts a small batch. Each operation has a warp, which counts the operations that come before
// it.
__device__ __forceinline__ void rank(const RankParams& p) {
  const uint64_t me = thread_index() / kWarp;
  if (me >= p.n) return;
  const uint32_t mine = p.prefixes[me];
  uint32_t before = 0;
  for (uint64_t i = lane_index(); i < p.n; i += kWarp) {
    const uint32_t other = p.prefixes[i];
    before += other < mine || (other == mine && i < me);
  }
  for (uint32_t x = 1; x < kWarp; x *= 2) before += shuffle_xor(kAll, before, x);
  if (lane_index() != 0) return;
  p.sorted[before] = mine;
  p.rows[before] = uint32_t(me);
}

// ---- lookups --------------------------------------------------------------------

// get_batch looks up one key per warp, unless the lookup repeats the previous one. If values are
// read from the host, warps with several keys are slower by a third. They wait for one key after
// the other.
__device__ __forceinline__ void get_batch(const GetParams& p) {
  const Table& t = p.table;
  const Lookup& l = p.lookup;
  bool cached = false;
  const bool hit = look_up<kWarp>(p, [&](const Item& it, uint8_t* value) WEFT_INLINE {
    const bool hit = get(t, it, value, cached);
    if (!hit) clear_value(t, value);
    return hit;
  });
  const bool first = lane_index() == 0;
  if (l.hits) count(l.hits, hit && first);
  if (t.cached && l.vals) count(t.cache_read, hit && first), count(t.cache_read + 1, cached && first);
}

// first_of returns the first lookup for the key of lookup number `at`. That lookup repeats no
// other.
__device__ __forceinline__ uint64_t first_of(const GetParams& p, uint64_t at) {
  const uint32_t prefix = p.prefixes[at];
  uint64_t lo = 0;
  for (uint64_t hi = at; lo < hi;) {
    const uint64_t mid = (lo + hi) / 2;
    if (p.prefixes[mid] < prefix) lo = mid + 1;
    else hi = mid;
  }
  while (!same_key(p, lo, at)) lo++;  // skips other keys with the same prefix
  return lo;
}

// repeat copies the result of the first lookup for a key to the lookups that repeat it.
__device__ __forceinline__ void repeat(const GetParams& p) {
  const Table& t = p.table;
  const Lookup& l = p.lookup;
  const uint64_t at = thread_index();
  const bool yes = at < l.n && follows(p, at);
  const uint32_t from = yes ? p.rows[first_of(p, at)] : 0, to = yes ? p.rows[at] : 0;
  const bool hit = yes && l.found[from] != 0;
  if (yes) store_once(l.found + to, uint8_t(hit));
  if (l.hits) count(l.hits, hit);
  uint8_t* vals = static_cast<uint8_t*>(l.vals);
  for (uint32_t votes = vals ? ballot(kAll, yes) : 0; votes != 0; votes &= votes - 1) {
    const uint8_t* value = vals + uint64_t(shuffle(kAll, from, lowest(votes))) * t.value_size;
    uint8_t* row = vals + uint64_t(shuffle(kAll, to, lowest(votes))) * t.value_size;
    for (uint32_t i = lane_index(); i < t.value_words; i += kWarp) put_word(row, t.value_size, i, row_word(value, t.value_size, i));
  }
}

// ---- whole tables -----------------------------------------------------------------

// export_pairs copies the pairs of buckets. No change runs meanwhile.
__device__ __forceinline__ void export_pairs(const BucketsParams& p) {
  const Table& t = p.table;
  each_bucket(p, [&](const Place& lane) WEFT_INLINE {
    uint32_t votes = ballot(kAll, lane.was.state() == kFull && sound(t, lane.was));
    if (votes == 0) return;
    uint64_t row = 0;
    if (lane_index() == 0) row = add_relaxed(p.to.count, uint64_t(popcount(votes)));
    row = shuffle(kAll, row, 0);
    for (; votes != 0 && row < p.to.rows; votes &= votes - 1, row++) {
      Place at = slot_of(lane, lowest(votes));
      uint8_t* key = static_cast<uint8_t*>(p.to.keys) + row * t.key_size;
      for (uint32_t i = lane_index(); 8 * i < t.key_size; i += kWarp)
        put_word(key, t.key_size, i, t.key_words ? load_relaxed_system(t.pool + at.key(t) + i) : tag_of(t, p, at));
      copy_value(t, t.pool + at.was.block(), p.to.vals ? static_cast<uint8_t*>(p.to.vals) + row * t.value_size : nullptr);
    }
  });
}

// wipe frees the slots of buckets.
__device__ __forceinline__ void wipe(const BucketsParams& p) {
  each_bucket(p, [&](const Place& lane) WEFT_INLINE {
    if (lane.slot < p.table.slots && lane.was.state() != kEmpty) say(p.table, lane, lane.was.next(kEmpty, 0));
  });
}

// mirror copies the control words and tags of buckets to the mirror.
__device__ __forceinline__ void mirror(const BucketsParams& p) {
  const Table& t = p.table;
  const Level& l = t.levels[p.level];
  const uint64_t words = (p.hi - p.lo) * 2 * t.slots;
  for (uint64_t i = thread_index(); i < words; i += threads_in_grid()) {
    uint64_t b = p.lo + i / (2 * t.slots), word = i % (2 * t.slots);
    store_relaxed_system(l.mirror + b * 2 * t.slots + word, load_relaxed_system(t.pool + l.base + b * t.bucket_words + word));
  }
}

// ---- the cache ------------------------------------------------------------------------

struct CacheParams {
  Table table;
  Space space;
  uint32_t* heat;        // heat of all buckets, from the top level down, or of all values
  const uint32_t* rows;  // numbers of these buckets or values, the hottest last
  uint64_t n;            // number of these buckets or values
  uint64_t capacity;     // capacity of the cache
};

// Cacheable is a bucket or a value.
struct Cacheable {
  uint32_t* cached;  // index in the cache
  uint32_t* heat;
  uint64_t words;  // first word in the pool
  bool used;
};

__device__ __forceinline__ Cacheable value_at(const CacheParams& p, uint64_t i) {
  const Table& t = p.table;
  const uint64_t unit = i / t.per, k = i % t.per;
  const bool used = load_relaxed(p.space.used + unit * p.space.words + k / 64) >> k % 64 & 1;
  return {t.cached + i, t.heat + i, t.first + unit * t.unit + t.at + k * t.value_words, used};
}

// cacheable returns bucket or value number i.
__device__ __forceinline__ Cacheable cacheable(const CacheParams& p, uint64_t i) {
  if (p.table.cached) return value_at(p, i);
  const Level* l = p.table.levels;
  for (; i >= 1ul << l->bits; l++) i -= 1ul << l->bits;
  return {l->cached + i, l->heat + i, l->base + i * p.table.bucket_words, true};
}

// cache_empty empties the cache and copies the heats. With LFU, it halves each heat for the next
// time.
__device__ __forceinline__ void cache_empty(const CacheParams& p) {
  const Table& t = p.table;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const Cacheable c = cacheable(p, i);
    store_relaxed(c.cached, kNotCached);
    const uint32_t heat = load_relaxed(c.heat);
    if (t.policy == kLFU) store_relaxed(c.heat, heat / 2);
    p.heat[i] = !c.used ? 0 : t.policy == kRandom ? uint32_t(hash(i, t.now)) : heat;
  }
}

// cache_fill puts the hottest entries into the cache, one per warp. No lookup reads the cache
// meanwhile, and no change runs.
__device__ __forceinline__ void cache_fill(const CacheParams& p) {
  const Table& t = p.table;
  const uint32_t words = t.cached ? t.value_words : 2 * t.slots;
  for (uint64_t y = thread_index() / kWarp; y < p.capacity && y < p.n; y += threads_in_grid() / kWarp) {
    if (p.heat[p.n - 1 - y] == 0) return;
    const Cacheable c = cacheable(p, p.rows[p.n - 1 - y]);
    for (uint32_t i = lane_index(); i < words; i += kWarp)
      store_relaxed_system(t.cache + y * words + i, load_relaxed_system(t.pool + c.words + i));
    sync_warp();
    if (lane_index() == 0) store_release(c.cached, uint32_t(y));
  }
}

}  // namespace weft::gphash

// ---- entry points ----------------------------------------------------------------

using namespace weft::gphash;

#define GPHASH_KERNEL(name, blocks) extern "C" __global__ void __launch_bounds__(kBlock, blocks) gphash_##name

GPHASH_KERNEL(tick, 1)(TickParams p) { tick(p); }
GPHASH_KERNEL(hash, 1)(HashParams p) { hash_keys(p); }
GPHASH_KERNEL(rank, 4)(RankParams p) { rank(p); }
GPHASH_KERNEL(get, kGetBlocks)(GetParams p) { get_batch(p); }
GPHASH_KERNEL(repeat, kGetBlocks)(GetParams p) { repeat(p); }
GPHASH_KERNEL(recycle, 1)(RecycleParams p) { recycle(p); }
GPHASH_KERNEL(reserve, 1)(ReserveParams p) { reserve<kBlock>(p); }
GPHASH_KERNEL(change, kChangeBlocks)(ChangeParams p) { change(p); }
GPHASH_KERNEL(change_crowded, 1)(ChangeParams p) { change_crowded(p); }
GPHASH_KERNEL(follow, 1)(ChangeParams p) { follow(p); }
GPHASH_KERNEL(log, 1)(RedoParams p) { log<kBlock, kInSlots>(p); }
GPHASH_KERNEL(settle, 1)(RedoParams p) { apply_batch<kInSlots>(p); }
GPHASH_KERNEL(home, 1)(RedoParams p) { write_back(p); }
GPHASH_KERNEL(undo, 1)(RedoParams p) { undo(p); }
GPHASH_KERNEL(move_up, 1)(BucketsParams p) { move_up<kInSlots>(p); }
GPHASH_KERNEL(export, 1)(BucketsParams p) { export_pairs(p); }
GPHASH_KERNEL(wipe, 1)(BucketsParams p) { wipe(p); }
GPHASH_KERNEL(cache_empty, 1)(CacheParams p) { cache_empty(p); }
GPHASH_KERNEL(cache_fill, 1)(CacheParams p) { cache_fill(p); }
GPHASH_KERNEL(survey, 4)(SurveyParams p) { survey(p); }
GPHASH_KERNEL(verify, 4)(SurveyParams p) { verify(p); }
GPHASH_KERNEL(mirror, 1)(BucketsParams p) { mirror(p); }
