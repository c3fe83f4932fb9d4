// Memory of values on a device. Bits in device memory mark the memory in use. They are computed
// whenever a pool is opened (values.go). Before a launch, each of its operations receives free
// memory of its region. Memory that the launch replaces or deletes is free again before the next
// launch.
#pragma once

#include "weft/crc32c.cuh"
#include "weft/gphash_table.cuh"

namespace weft::gphash {

// Owner is the owner of a unit of the pool: none, a level, or a region. Regions begin at kOfRegion.
enum Owner : uint32_t { kNobody, kOfLevel, kOfRegion };

constexpr uint32_t kRegionBits = 7;  // twin: maxRegionBits in layout.go

// Lists are the values and slots that a launch leaves for reuse.
struct Lists {
  uint64_t* stale;  // blocks of replaced or deleted values
  uint64_t* tombs;  // control words of deleted slots
  uint32_t* counts;  // lengths of both lists
};

struct Space {
  uint64_t* used;    // one bit per value, `words` words per unit
  uint32_t* owners;  // owner of each unit
  uint32_t units, words;
  Lists lists;
};

// check_of returns the word of the pool with the checksum of a value.
__device__ __forceinline__ uint64_t check_of(const Table& t, uint64_t block) {
  const Located v = locate(t, block);
  return t.first + v.unit * t.unit + v.i;
}

// check_word returns the contents of the word at check_of: the length of the value, and a checksum.
// The checksum also depends on the place of the value and on the key's hash (twin:
// values.checksumWord in values.go).
__device__ __forceinline__ uint64_t check_word(const Table& t, uint64_t block, uint64_t hash, uint32_t crc) {
  const uint64_t mixed = (hash ^ block * 0x9e3779b97f4a7c15ul) * 0xd1b54a32d192ed03ul;
  return uint64_t(t.value_size) << 32 | (crc ^ uint32_t(mixed >> 32));
}

__device__ __forceinline__ void mark(const Table& t, const Space& s, uint64_t block, bool used) {
  Located v = locate(t, block);
  uint64_t* word = s.used + v.unit * s.words + v.i / 64;
  if (used) or_relaxed(word, 1ul << v.i % 64);
  else and_relaxed(word, ~(1ul << v.i % 64));
}

// ---- recycling -------------------------------------------------------------------

struct RecycleParams {
  Table table;
  Space space;
};

// read_at returns the address where lookups read a control word of the pool.
__device__ __forceinline__ uint64_t* read_at(const Table& t, uint64_t at) {
  for (uint32_t i = 0; i < t.live; i++) {
    const Level& l = t.levels[i];
    if (at < l.base || at >= l.base + (uint64_t(t.bucket_words) << l.bits)) continue;
    uint64_t b = (at - l.base) / t.bucket_words;
    return words_of(t, l, b) + (at - l.base - b * t.bucket_words);
  }
  return t.pool + at;
}

// recycle frees the values and slots in the lists. Their replacement or deletion is durable since
// the end of that change (tick). So if a crash keeps new data in the same place, it also keeps the
// replacement.
__device__ __forceinline__ void recycle(const RecycleParams& p) {
  const Table& t = p.table;
  const Lists& l = p.space.lists;
  const uint32_t stale = load_relaxed(l.counts), tombs = load_relaxed(l.counts + 1);
  for (uint64_t i = thread_index(); i < stale; i += threads_in_grid()) mark(t, p.space, l.stale[i], false);
  for (uint64_t i = thread_index(); i < tombs; i += threads_in_grid()) {
    uint64_t at = l.tombs[i];
    Control c{load_relaxed_system(t.pool + at)};
    uint64_t empty = c.next(kEmpty, 0).bits;
    store_relaxed_system(t.pool + at, empty);
    uint64_t* read = read_at(t, at);
    if (read != t.pool + at) store_relaxed_system(read, empty);
  }
  if (thread_index() == 0 && tombs != 0) add_relaxed(&t.counters->used, -uint64_t(tombs));
}

// ---- reservations -----------------------------------------------------------------

struct ReserveParams {
  Table table;
  Space space;
  const uint32_t* prefixes;  // hash prefixes of the operations, ascending
  uint64_t* fresh;           // output: memory for a value of each operation; 0 if none is left
  uint32_t n;
  uint32_t regions;  // log2 of the number of regions
};

// first_of returns the first operation in a region.
__device__ __forceinline__ uint32_t first_of(const ReserveParams& p, uint32_t region) {
  if (region >> p.regions != 0) return p.n;
  uint32_t lo = 0, hi = p.n;
  const uint64_t from = uint64_t(region) << (32 - p.regions);
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (p.prefixes[mid] < from) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

// Share is shared memory for sums over the warps of a block.
template <int Block>
struct Share {
  uint32_t warps[Block / kWarp], votes[Block / kWarp];
  uint32_t was;
};

// below returns the sum of n over the threads of the block before this thread. It stores the sum
// over all threads in `all`.
template <int Block>
__device__ __forceinline__ uint32_t below(Share<Block>& share, uint32_t n, uint32_t& all) {
  const uint32_t lane = lane_index(), warp = thread_in_block() / kWarp;
  uint32_t sum = n;
  for (uint32_t step = 1; step < kWarp; step *= 2) {
    uint32_t other = shuffle(kAll, sum, lane >= step ? lane - step : lane);
    if (lane >= step) sum += other;
  }
  if (lane == kWarp - 1) share.warps[warp] = sum;
  sync_block();
  uint32_t before = 0;
  all = 0;
  for (uint32_t w = 0; w < Block / kWarp; w++) {
    if (w < warp) before += share.warps[w];
    all += share.warps[w];
  }
  sync_block();
  return before + sum - n;
}

// deal assigns the free values of a unit to operations from number `from` on. It returns the number
// of the first operation without memory.
template <int Block>
__device__ __forceinline__ uint32_t deal(const ReserveParams& p, Share<Block>& share, uint32_t unit, uint32_t from, uint32_t end) {
  const Table& t = p.table;
  for (uint32_t first = 0; first < p.space.words && from < end; first += Block) {
    uint32_t word = first + thread_in_block();
    uint64_t free = 0;
    if (word < p.space.words) {
      free = ~load_relaxed(p.space.used + uint64_t(unit) * p.space.words + word);
      uint32_t left = t.per - 64 * word;  // number of values from this word on
      if (left < 64) free &= (1ul << left) - 1;
    }
    uint32_t all, at = from + below(share, popcount(uint32_t(free)) + popcount(uint32_t(free >> 32)), all);
    for (; free != 0 && at < end; free &= free - 1, at++) {
      uint32_t lo = uint32_t(free), bit = lo != 0 ? lowest(lo) : 32 + lowest(uint32_t(free >> 32));
      p.fresh[at] = t.first + uint64_t(unit) * t.unit + t.at + uint64_t(64 * word + bit) * t.value_words;
    }
    from = from + all < end ? from + all : end;
  }
  return from;
}

// each_unit calls f(unit) for the units with owned(owner) true, until f returns false. A block
// checks as many units at a time as it has threads.
template <int Block, class Owned, class F>
__device__ __forceinline__ void each_unit(const ReserveParams& p, Share<Block>& share, Owned owned, F f) {
  // Levels take units from the beginning of the pool, so values take units from its end.
  for (uint32_t end = p.space.units; end != 0; end = end > Block ? end - Block : 0) {
    uint32_t mine = end - 1 - thread_in_block();
    bool yes = thread_in_block() < end && owned(load_relaxed(p.space.owners + mine));
    uint32_t votes = ballot(kAll, yes);
    if (lane_index() == 0) share.votes[thread_in_block() / kWarp] = votes;
    sync_block();
    for (uint32_t w = 0; w < Block / kWarp; w++)
      for (uint32_t left = share.votes[w]; left != 0; left &= left - 1)
        if (!f(end - 1 - w * kWarp - lowest(left))) return;
    sync_block();
  }
}

// reserve assigns memory to the operations in a region. One block runs it for each region.
// Operations first receive free values in the region's units, and then values in units without an
// owner.
template <int Block>
__device__ __forceinline__ void reserve(const ReserveParams& p) {
  __shared__ Share<Block> share;
  const uint32_t region = block_index(), me = kOfRegion + (region << (kRegionBits - p.regions));
  const uint32_t next = kOfRegion + ((region + 1) << (kRegionBits - p.regions));
  uint32_t at = first_of(p, region);
  const uint32_t end = first_of(p, region + 1);
  if (at == end) return;
  each_unit(p, share, [&](uint32_t owner) WEFT_INLINE { return owner >= me && owner < next; }, [&](uint32_t unit) WEFT_INLINE {
    at = deal(p, share, unit, at, end);
    return at < end;
  });
  sync_block();
  if (at < end)
    each_unit(p, share, [](uint32_t owner) WEFT_INLINE { return owner == kNobody; }, [&](uint32_t unit) WEFT_INLINE {
      if (thread_in_block() == 0) share.was = cas_relaxed(p.space.owners + unit, uint32_t(kNobody), me);
      sync_block();
      bool mine = share.was == kNobody;
      sync_block();
      if (mine) at = deal(p, share, unit, at, end);
      return at < end;
    });
  for (uint32_t i = at + thread_in_block(); i < end; i += Block) p.fresh[i] = 0;
}

}  // namespace weft::gphash
