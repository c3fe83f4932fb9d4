// Prefix sums of counts, and the indices in sorted keys where a key differs from the one before.
#include "weft/lookback.cuh"
#include "tuning.cuh"

namespace weft::prim {

constexpr uint32_t kScanWarps = kScanThreads / kWarp;

// ScanParams has the layout of scanParams in Go.
template <class Sum>
struct ScanParams {
  const uint32_t* counts;
  Sum* offsets;      // output: n + 1 sums
  uint64_t* status;  // one word per tile
  uint32_t* next;    // the next tile to begin
  uint32_t n;
  uint32_t aligned;  // not 0: counts and offsets are aligned to 16 bytes
};

// Vectors of counts, and vectors of sums with the same number of elements. A row of a warp has one
// vector per lane. The sums of a vector take 16 bytes.
__device__ __forceinline__ void load_vector(uint32_t (&v)[4], const uint32_t* p) {
  Word128 w = load_weak((const Word128*)p);
  v[0] = uint32_t(w.x), v[1] = uint32_t(w.x >> 32), v[2] = uint32_t(w.y), v[3] = uint32_t(w.y >> 32);
}
__device__ __forceinline__ void load_vector(uint32_t (&v)[2], const uint32_t* p) {
  uint64_t w = load_once((const uint64_t*)p);
  v[0] = uint32_t(w), v[1] = uint32_t(w >> 32);
}
__device__ __forceinline__ void store_vector(void* p, Word128 v) {
  asm volatile("st.global.v2.b64 [%0], {%1, %2};" ::"l"(p), "l"(v.x), "l"(v.y) : "memory");
}
__device__ __forceinline__ void store_vector(uint64_t* p, const uint64_t (&s)[2]) { store_vector(p, Word128{s[0], s[1]}); }
__device__ __forceinline__ void store_vector(uint32_t* p, const uint32_t (&s)[4]) {
  store_vector(p, Word128{s[0] | uint64_t(s[1]) << 32, s[2] | uint64_t(s[3]) << 32});
}

// scan writes, for each count, the sum of all counts before it. A warp takes consecutive rows.
template <class Sum>
__device__ __forceinline__ void scan(const ScanParams<Sum>& p) {
  constexpr uint32_t kBits = 8 * sizeof(Sum), kVector = 16 / sizeof(Sum), kRow = kWarp * kVector;
  constexpr uint32_t kItems = ScanTuning<kBits>::kCounts, kRows = kItems / kVector, kTile = kScanThreads * kItems;
  __shared__ Tiles shared_tile;
  __shared__ uint64_t shared_sums[kScanWarps];
  uint32_t tile = begin_tile(&shared_tile, p.next), lane = lane_index(), warp = thread_in_block() / kWarp;
  uint32_t begin = tile * kTile, first = begin + warp * kRows * kRow + lane * kVector;
  bool whole = p.aligned && p.n - begin >= kTile;

  uint32_t counts[kRows][kVector];
  if (whole) {
#pragma unroll
    for (uint32_t r = 0; r < kRows; r++) load_vector(counts[r], p.counts + first + r * kRow);
  } else {
#pragma unroll
    for (uint32_t r = 0; r < kRows; r++) {
#pragma unroll
      for (uint32_t i = 0; i < kVector; i++) {
        uint32_t at = first + r * kRow + i;
        counts[r][i] = at < p.n ? p.counts[at] : 0;
      }
    }
  }
  // Compute the sums up to the end of each lane's vector, first in each row, then in the warp.
  Sum up_to[kRows], sum = 0;
#pragma unroll
  for (uint32_t r = 0; r < kRows; r++) {
    up_to[r] = 0;
#pragma unroll
    for (uint32_t i = 0; i < kVector; i++) up_to[r] += counts[r][i];
  }
#pragma unroll
  for (uint32_t d = 1; d < kWarp; d *= 2) {
#pragma unroll
    for (uint32_t r = 0; r < kRows; r++) {
      Sum below = shuffle(kAll, up_to[r], lane - d);
      if (lane >= d) up_to[r] += below;
    }
  }
#pragma unroll
  for (uint32_t r = 0; r < kRows; r++) {
    Sum row = shuffle(kAll, up_to[r], kWarp - 1);
    up_to[r] += sum;
    sum += row;
  }
  uint64_t total;
  Sum before = Sum(block_before<kScanWarps>(&shared_tile, shared(shared_sums), p.status, tile, sum, total));

#pragma unroll
  for (uint32_t r = 0; r < kRows; r++) {
    Sum out[kVector], s = before + up_to[r];
#pragma unroll
    for (uint32_t i = kVector; i-- > 0;) out[i] = s -= counts[r][i];
    uint32_t at = first + r * kRow;
    if (whole) {
      store_vector(p.offsets + at, out);
    } else {
#pragma unroll
      for (uint32_t i = 0; i < kVector; i++)
        if (at + i < p.n) p.offsets[at + i] = out[i];
    }
  }
  if (p.n - begin <= kTile && thread_in_block() == 0) p.offsets[p.n] = Sum(total);
}

// HeadsParams has the layout of headsParams in Go.
template <class K>
struct HeadsParams {
  const K* keys;      // sorted
  K* distinct;        // output: distinct keys; may be null
  uint32_t* offsets;  // output: index at which each distinct key begins, and then n
  uint32_t* count;    // output: number of distinct keys
  uint64_t* status;   // one word per tile
  uint32_t* next;     // the next tile to begin
  uint32_t n;
  uint32_t unused;
};

// heads lists the indices where a key differs from the one before. A warp takes consecutive rows of
// 32 keys.
template <class K>
__device__ __forceinline__ void heads(const HeadsParams<K>& p) {
  constexpr uint32_t kItems = ScanTuning<8 * sizeof(K)>::kKeys, kTile = kScanThreads * kItems;
  static_assert(kItems <= kWarp);
  __shared__ Tiles shared_tile;
  __shared__ uint64_t shared_sums[kScanWarps];
  uint32_t tile = begin_tile(&shared_tile, p.next), lane = lane_index(), warp = thread_in_block() / kWarp;
  uint32_t first = tile * kTile + warp * kItems * kWarp, rows = first < p.n ? p.n - first : 0;
  const K* keys = p.keys + first;

  K key[kItems], last = rows > 0 && first > 0 ? keys[-1] : 0;
  if (rows >= kItems * kWarp) {
#pragma unroll
    for (uint32_t r = 0; r < kItems; r++) key[r] = keys[r * kWarp + lane];
  } else {
#pragma unroll
    for (uint32_t r = 0; r < kItems; r++) key[r] = r * kWarp + lane < rows ? keys[r * kWarp + lane] : 0;
  }
  // Lane r holds the mask of the lanes of row r where a key begins.
  uint32_t heads = 0, sum = 0;
#pragma unroll
  for (uint32_t r = 0; r < kItems; r++) {
    K before = shuffle(kAll, key[r], lane - 1);
    if (lane == 0) before = last;
    last = shuffle(kAll, key[r], kWarp - 1);
    uint32_t row = ballot(kAll, r * kWarp + lane < rows && key[r] != before);
    if (r == 0 && first == 0) row |= 1;
    if (lane == r) heads = row;
    sum += popcount(row);
  }
  uint64_t total;
  uint32_t to = uint32_t(block_before<kScanWarps>(&shared_tile, shared(shared_sums), p.status, tile, sum, total));
#pragma unroll
  for (uint32_t r = 0; r < kItems; r++) {
    uint32_t row = shuffle(kAll, heads, r);
    if (row >> lane & 1) {
      uint32_t at = to + popcount(row & ((1u << lane) - 1)), i = r * kWarp + lane;
      p.offsets[at] = first + i;
      if (p.distinct) p.distinct[at] = keys[i];  // read again, to save a register
    }
    to += popcount(row);
  }
  if (p.n - tile * kTile <= kTile && thread_in_block() == 0) {
    p.offsets[total] = p.n;
    *p.count = uint32_t(total);
  }
}

}  // namespace weft::prim

using namespace weft::prim;

#define WEFT_KERNEL extern "C" __global__ void __launch_bounds__(kScanThreads, kScanBlocks)
WEFT_KERNEL scan_32(ScanParams<uint32_t> p) { scan(p); }
WEFT_KERNEL scan_64(ScanParams<uint64_t> p) { scan(p); }
WEFT_KERNEL scan_heads_32(HeadsParams<uint32_t> p) { heads(p); }
WEFT_KERNEL scan_heads_64(HeadsParams<uint64_t> p) { heads(p); }
