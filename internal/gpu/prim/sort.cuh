// Radix sort and partition by digits of eight bits. One kernel counts the digits of all passes.
// Another kernel moves the rows of one pass, and reads and writes each row once. See Adinets and
// Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs" (2022).
#pragma once

#include "tuning.cuh"
#include "weft/warp.cuh"

namespace weft::prim {

constexpr uint32_t kBins = 256, kBinWarps = kBins / kWarp;

// HistogramParams has the layout of histogramParams in Go.
template <class K>
struct HistogramParams {
  const K* keys;
  uint32_t* counts;  // kBins counters per pass, to which the kernel adds
  uint32_t n;
  uint32_t lo, hi;  // bits [lo,hi) of a key are sorted by
  uint32_t flip;    // xor mask for the last digit
};

// PassParams has the layout of passParams in Go.
template <class K, class V>
struct PassParams {
  const K* keys;
  const V* vals;  // null: the values are row numbers
  K* keys_out;
  V* vals_out;
  const uint32_t* counts;  // number of rows with each digit
  uint64_t* status;        // kBins words per tile
  uint32_t* next;          // the next tile to begin
  uint32_t* offsets;       // output: where each digit begins, kBins + 1 elements; may be null
  uint32_t n;
  uint32_t shift;
  uint32_t mask;
  uint32_t flip;
  uint32_t epoch;  // words in status with another epoch are of earlier passes and not valid
  uint32_t unused;
};

template <class K>
__device__ __forceinline__ uint32_t digit_of(K key, uint32_t shift, uint32_t mask, uint32_t flip) {
  return (uint32_t(key >> shift) ^ flip) & mask;
}

// histogram counts the digits of all passes at once, because every pass has the same keys in
// another order.
template <class K>
__device__ __forceinline__ void histogram(const HistogramParams<K>& p) {
  constexpr uint32_t kRows = 64 / sizeof(K), kPasses = sizeof(K);
  __shared__ uint32_t memory[kPasses * kBins];
  Shared<uint32_t> counts = shared(memory);
  uint32_t passes = (p.hi - p.lo + 7) / 8;
  for (uint32_t i = thread_in_block(); i < passes * kBins; i += threads_per_block()) store_weak(counts + i, 0u);
  sync_block();
  uint64_t step = threads_in_grid() * kRows;
  for (uint64_t begin = uint64_t(block_index()) * threads_per_block() * kRows + thread_in_block(); begin < p.n; begin += step) {
    K key[kRows];
#pragma unroll
    for (uint32_t i = 0; i < kRows; i++) {
      uint64_t at = begin + i * threads_per_block();
      key[i] = at < p.n ? load_once(p.keys + at) : K(0);
    }
    for (uint32_t pass = 0; pass < passes; pass++) {
      uint32_t shift = p.lo + 8 * pass;
      bool last = pass == passes - 1;
      uint32_t mask = last ? (1u << (p.hi - shift)) - 1 : kBins - 1;
#pragma unroll
      for (uint32_t i = 0; i < kRows; i++) {
        if (begin + i * threads_per_block() < p.n)
          add_relaxed(counts + (pass * kBins + digit_of(key[i], shift, mask, last ? p.flip : 0)), 1u);
      }
    }
  }
  sync_block();
  for (uint32_t i = thread_in_block(); i < passes * kBins; i += threads_per_block()) {
    uint32_t n = load_weak(counts + i);
    if (n > 0) add_relaxed(p.counts + i, n);
  }
}

// ---- ranks of a tile --------------------------------------------------------

// agree returns the lanes with the same bit in v as this lane.
__device__ __forceinline__ uint32_t agree(uint32_t v, uint32_t bit) {
  uint32_t r;
  asm volatile(
      "{ .reg .pred p; .reg .b32 t; and.b32 t, %1, %2; setp.ne.u32 p, t, 0;"
      " vote.sync.ballot.b32 %0, p, 0xffffffff; @!p not.b32 %0, %0; }"
      : "=&r"(r) : "r"(v), "r"(bit));
  return r;
}

// peers returns the lanes with the same digit. Eight ballots take less time than match_any when
// most digits of a warp differ.
__device__ __forceinline__ uint32_t peers(uint32_t digit) {
  uint32_t lanes = kAll;
#pragma unroll
  for (uint32_t bit = 1; bit < kBins; bit *= 2) lanes &= agree(digit, bit);
  return lanes;
}

// sum_below returns the sum of v over the threads before this one, for the first kBins threads of
// the block. All threads of the block must call it. Two calls need a sync_block between them.
__device__ __forceinline__ uint32_t sum_below(uint32_t v, Shared<uint32_t> sums) {
  uint32_t lane = lane_index(), warp = thread_in_block() / kWarp, up_to = v;
#pragma unroll
  for (uint32_t d = 1; d < kWarp; d *= 2) {
    uint32_t below = shuffle(kAll, up_to, lane >= d ? lane - d : lane);
    if (lane >= d) up_to += below;
  }
  if (lane == kWarp - 1 && warp < kBinWarps) store_weak(sums + warp, up_to);
  sync_block();
  uint32_t before = up_to - v;
#pragma unroll
  for (uint32_t w = 0; w < kBinWarps - 1; w++) before += w < warp ? load_weak(sums + w) : 0;
  return before;
}

// ---- look-back --------------------------------------------------------------

// A status word has a tag in its upper half, and a number of rows with one digit in its lower half.
// If the tag is 2 * epoch, the number counts the rows of one tile. If the tag is 2 * epoch + 1, the
// number also counts the rows of all earlier tiles, and all rows with smaller digits. A word
// depends on no other memory, so relaxed accesses suffice.
__device__ __forceinline__ uint64_t status_word(uint32_t tag, uint32_t rows) { return uint64_t(tag) << 32 | rows; }

// rows_before returns the number of rows in the tiles before this one. It reads the words of
// earlier tiles backward, until it reads a word that includes all tiles before its own. Tiles are
// numbered in the order in which blocks begin. So the blocks of all earlier tiles have begun, and
// the first tile waits for no other. rows_before reads the words of several tiles at once, because
// in a short sort all tiles look back far at the same time.
__device__ __forceinline__ uint32_t rows_before(const uint64_t* status, uint32_t tile, uint32_t epoch) {
  constexpr uint32_t kAtOnce = 4;
  uint32_t rows = 0;
  for (uint32_t end = tile;;) {
    uint64_t word[kAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; i++) word[i] = load_relaxed(status + uint64_t(end > i ? end - 1 - i : 0) * kBins);
    uint32_t met = 0;
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; i++) {
      uint32_t tag = uint32_t(word[i] >> 32);
      if (met != i || tag / 2 != epoch) continue;
      rows += uint32_t(word[i]), met++;
      if (tag & 1) return rows;
    }
    end -= met;
  }
}

// ---- a pass -----------------------------------------------------------------

// compiler_barrier makes the compiler recompute values that depend on v, instead of keeping them in
// registers. A pass has no spare registers.
__device__ __forceinline__ void compiler_barrier(uint32_t& v) { asm volatile("" : "+r"(v)); }
__device__ __forceinline__ void compiler_barrier(uint64_t& v) { asm volatile("" : "+l"(v)); }

// Places holds positions in a tile, two per register.
template <uint32_t N>
struct Places {
  uint32_t pair[(N + 1) / 2];
  __device__ __forceinline__ void set(uint32_t i, uint32_t at) { pair[i / 2] = i % 2 ? pair[i / 2] | at << 16 : at; }
  __device__ __forceinline__ uint32_t operator[](uint32_t i) const { return i % 2 ? pair[i / 2] >> 16 : pair[i / 2] & 0xffff; }
};

// load_rows loads the rows of a thread. A warp takes consecutive rows. A whole tile needs no bounds
// checks. In the last tile, absent(i) returns the value of a row beyond the end.
template <bool Whole, uint32_t N, class T, class Absent>
__device__ __forceinline__ void load_rows(T (&v)[N], const T* from, uint32_t first, uint32_t rows, Absent absent) {
#pragma unroll
  for (uint32_t i = 0; i < N; i++) {
    uint32_t at = first + i * kWarp;
    v[i] = Whole || at < rows ? load_once(from + at) : absent(at);
  }
}

// put_keys writes the keys in shared memory, which are sorted by digit, to the output. It stores
// the output positions in to. A thread takes every Threads-th key.
template <bool Whole, uint32_t Threads, uint32_t N, class K, class P>
__device__ __forceinline__ void put_keys(uint32_t (&to)[N], Shared<K> keys, Shared<uint32_t> base, uint32_t thread, uint32_t rows, const P& p) {
#pragma unroll
  for (uint32_t i = 0; i < N; i++) {
    uint32_t at = thread + i * Threads;
    K k = load_weak(keys + at);
    to[i] = load_weak(base + digit_of(k, p.shift, p.mask, p.flip)) + at;
    if (Whole || at < rows) p.keys_out[to[i]] = k;
  }
}

template <bool Whole, uint32_t Threads, uint32_t N, class V, class P>
__device__ __forceinline__ void put_vals(const uint32_t (&to)[N], Shared<V> vals, uint32_t thread, uint32_t rows, const P& p) {
#pragma unroll
  for (uint32_t i = 0; i < N; i++) {
    uint32_t at = thread + i * Threads;
    if (Whole || at < rows) p.vals_out[to[i]] = load_weak(vals + at);
  }
}

// Owned has the numbers of rows in a tile that have a digit, and that have smaller digits.
struct Owned {
  uint32_t rows, smaller;
};

// own_digit makes each of the first kBins threads the owner of a digit. The owner publishes the
// number of rows of the tile with the digit. In counts, it replaces each warp's number of rows with
// the digit by the position in the sorted tile where these rows begin.
template <uint32_t Warps, class P>
__device__ __forceinline__ Owned own_digit(Shared<uint32_t> counts, Shared<uint32_t> sums, uint32_t thread, uint32_t tile, const P& p) {
  bool owner = thread < kBins;
  uint32_t total = 0, count[Warps];
#pragma unroll
  for (uint32_t w = 0; w < Warps; w++) count[w] = owner ? load_weak(counts + (w * kBins + thread)) : 0, total += count[w];
  if (owner && tile > 0) store_relaxed(p.status + uint64_t(tile) * kBins + thread, status_word(2 * p.epoch, total));
  uint32_t smaller = sum_below(total, sums);
  if (owner) {
    uint32_t before = smaller;
#pragma unroll
    for (uint32_t w = 0; w < Warps; w++) store_weak(counts + (w * kBins + thread), before), before += count[w];
  }
  return {total, smaller};
}

// find_base computes where the rows of the thread's digit begin in the output, minus their position
// in the tile. For the first tile, it computes where digits begin.
template <class P>
__device__ __forceinline__ void find_base(Owned mine, Shared<uint32_t> base, Shared<uint32_t> sums, uint32_t thread, uint32_t tile, const P& p) {
  bool owner = thread < kBins;
  uint32_t before = 0;
  if (tile == 0) {
    before = sum_below(owner ? p.counts[thread] : 0, sums);
    if (p.offsets && owner) {
      p.offsets[thread] = before;
      if (thread == 0) p.offsets[kBins] = p.n;
    }
  } else if (owner) {
    before = rows_before(p.status + thread, tile, p.epoch);
  }
  if (owner) {
    store_relaxed(p.status + uint64_t(tile) * kBins + thread, status_word(2 * p.epoch + 1, before + mine.rows));
    store_weak(base + thread, before - mine.smaller);
  }
}

// rank_rows computes the position of each row of a warp in the sorted tile. Rows with equal digits
// keep their order. counts holds the positions where the warp's rows of each digit begin.
template <uint32_t N, class K, class P>
__device__ __forceinline__ void rank_rows(Places<N>& place, const K (&key)[N], Shared<uint32_t> counts, uint32_t lane, const P& p) {
  uint32_t below = (1u << lane) - 1;
#pragma unroll
  for (uint32_t i = 0; i < N; i++) {
    uint32_t digit = digit_of(key[i], p.shift, p.mask, p.flip), lanes = peers(digit), start = 0;
    uint32_t leader = lowest(lanes);
    if (lane == leader) start = add_relaxed(counts + digit, popcount(lanes));
    place.set(i, shuffle(kAll, start, leader) + popcount(lanes & below));
  }
}

// pass moves the rows of one tile to their positions in the output. It first sorts the rows by
// digit in shared memory, so that neighbors there are mostly neighbors in the output. It counts
// digits before it ranks rows. So it publishes the counts early, and later blocks can look back
// while this block ranks.
template <class K, class V>
__device__ __forceinline__ void pass(const PassParams<K, V>& p) {
  constexpr bool kPairs = sizeof(V) > 1;
  using T = SortTuning<sizeof(K), kPairs ? sizeof(V) : 0>;
  constexpr uint32_t kThreads = T::kThreads, kItems = T::kItems, kWarps = kThreads / kWarp, kTile = kThreads * kItems;
  constexpr uint32_t kRow = sizeof(K) > sizeof(V) ? sizeof(K) : sizeof(V);
  constexpr uint32_t kBytes = kTile * kRow > kWarps * kBins * 4 ? kTile * kRow : kWarps * kBins * 4;
  static_assert(kThreads >= kBins && kTile < 1 << 16);

  // The memory first holds the counts of warps, then keys, then values. Data that lives longer
  // follows at fixed offsets from the same address, so one register suffices for all addresses.
  alignas(16) __shared__ uint8_t memory[kBytes + (kBins + kBinWarps + 1) * 4];
  uint32_t thread = thread_in_block(), lane = lane_index(), warp = thread / kWarp;
  Shared<uint32_t> counts = {shared(memory).address}, base = counts + kBytes / 4, sums = base + kBins, ticket = sums + kBinWarps;

  if (thread == 0) store_weak(ticket, add_relaxed(p.next, 1u));
#pragma unroll
  for (uint32_t i = 0; i < kBins; i += kWarp) store_weak(counts + (warp * kBins + i + lane), 0u);
  sync_block();
  uint32_t tile = load_weak(ticket), begin = tile * kTile;
  uint32_t rows = p.n - begin < kTile ? p.n - begin : kTile, first = warp * (kWarp * kItems) + lane;
  bool whole = rows == kTile;

  // Absent keys have the largest digit, so they come last in the tile.
  K key[kItems], absent = ~(K(p.flip) << p.shift);
  auto get_absent = [=](uint32_t) { return absent; };
  if (whole)
    load_rows<true>(key, p.keys + begin, first, rows, get_absent);
  else
    load_rows<false>(key, p.keys + begin, first, rows, get_absent);
#pragma unroll
  for (uint32_t i = 0; i < kItems; i++)
    add_relaxed(counts + (warp * kBins + digit_of(key[i], p.shift, p.mask, p.flip)), 1u);
#pragma unroll
  for (uint32_t i = 0; i < kItems; i++) compiler_barrier(key[i]);
  sync_block();
  Owned mine = own_digit<kWarps>(counts, sums, thread, tile, p);
  sync_block();
  compiler_barrier(tile), compiler_barrier(rows), compiler_barrier(thread);
  begin = tile * kTile, whole = rows == kTile, lane = thread % kWarp, warp = thread / kWarp, first = warp * (kWarp * kItems) + lane;

  Places<kItems> place;
  rank_rows(place, key, counts + warp * kBins, lane, p);
  sync_block();
  Shared<K> keys = {counts.address};
#pragma unroll
  for (uint32_t i = 0; i < kItems; i++) store_weak(keys + place[i], key[i]);
  V val[kItems];
  if constexpr (kPairs) {
    auto number = [=](uint32_t at) { return V(begin + at); };
    if (whole && p.vals)
      load_rows<true>(val, p.vals + begin, first, rows, number);
    else
      load_rows<false>(val, p.vals + begin, first, p.vals ? rows : 0, number);
  }
  find_base(mine, base, sums, thread, tile, p);
  sync_block();

  uint32_t to[kItems];
  if (whole)
    put_keys<true, kThreads>(to, keys, base, thread, rows, p);
  else
    put_keys<false, kThreads>(to, keys, base, thread, rows, p);
  if constexpr (kPairs) {
    Shared<V> vals = {counts.address};
    sync_block();
#pragma unroll
    for (uint32_t i = 0; i < kItems; i++) store_weak(vals + place[i], val[i]);
    sync_block();
    if (whole)
      put_vals<true, kThreads>(to, vals, thread, rows, p);
    else
      put_vals<false, kThreads>(to, vals, thread, rows, p);
  }
}

}  // namespace weft::prim
