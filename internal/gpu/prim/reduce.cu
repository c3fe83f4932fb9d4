// Sums, minima and maxima of segments. The kernels merge values and segment ends into one sequence,
// in which the end of a segment follows its values. A block takes a tile of this sequence. So
// neither long segments nor many empty segments delay a block. See Merrill and Garland,
// "Merge-based Parallel Sparse Matrix-Vector Multiplication" (2016).
#include "tuning.cuh"
#include "weft/warp.cuh"

namespace weft::prim {

constexpr uint32_t kWarps = kReduceThreads / kWarp;

enum Op : uint32_t { kSum, kMin, kMax };

// Cut is the beginning of a tile: the first segment that ends in the tile, and the first value.
struct Cut {
  uint32_t segment, value;
};

// ReduceParams has the layout of reduceParams in Go.
struct ReduceParams {
  const void* values;
  const void* offsets;    // beginning of each segment, and the end of the last segment
  const uint32_t* count;  // number of segments; null: the number is segments
  void* out;              // output: one number per segment
  Cut* cuts;              // beginning of each tile, and the end of the last tile
  void* carries;          // partial result of each tile for a segment that ends later
  uint64_t identity;      // neutral element of the operation
  uint32_t segments;      // maximum number of segments
  uint32_t tiles;         // maximum number of tiles
  uint32_t wide;          // not 0: offsets have 64 bits
  uint32_t op;
};

__device__ __forceinline__ uint64_t offset(const ReduceParams& p, uint32_t i) {
  return p.wide ? ((const uint64_t*)p.offsets)[i] : ((const uint32_t*)p.offsets)[i];
}
__device__ __forceinline__ uint32_t segments(const ReduceParams& p) { return p.count ? load_once(p.count) : p.segments; }

// cut finds where tiles begin. A thread searches for the number of segments that end before its
// tile.
__device__ __forceinline__ void cut(const ReduceParams& p) {
  uint32_t tile = uint32_t(thread_index()), m = segments(p);
  if (tile > p.tiles) return;
  uint64_t first = offset(p, 0), values = offset(p, m) - first, before = uint64_t(tile) * kReduceTile;
  if (before > values + m) before = values + m;
  uint64_t lo = before > values ? before - values : 0, hi = before < m ? before : m;
  while (lo < hi) {
    uint64_t mid = (lo + hi) / 2;
    if (offset(p, uint32_t(mid) + 1) - first < before - mid)
      lo = mid + 1;
    else
      hi = mid;
  }
  p.cuts[tile] = Cut{uint32_t(lo), uint32_t(before - lo)};
}

// highest returns the index of the highest set bit. v must not be 0.
__device__ __forceinline__ uint32_t highest(uint32_t v) {
  uint32_t r;
  asm("bfind.u32 %0, %1;" : "=r"(r) : "r"(v));
  return r;
}

// ---- numbers ----------------------------------------------------------------

__device__ __forceinline__ uint32_t bits(uint32_t v) { return v; }
__device__ __forceinline__ uint32_t bits(int32_t v) { return uint32_t(v); }
__device__ __forceinline__ uint64_t bits(uint64_t v) { return v; }
__device__ __forceinline__ uint64_t bits(int64_t v) { return uint64_t(v); }
__device__ __forceinline__ uint32_t bits(float v) {
  uint32_t r;
  asm("mov.b32 %0, %1;" : "=r"(r) : "f"(v));
  return r;
}
__device__ __forceinline__ uint64_t bits(double v) {
  uint64_t r;
  asm("mov.b64 %0, %1;" : "=l"(r) : "d"(v));
  return r;
}
template <class V>
__device__ __forceinline__ V number(uint64_t b) { return V(b); }
template <>
__device__ __forceinline__ float number<float>(uint64_t b) {
  float r;
  asm("mov.b32 %0, %1;" : "=f"(r) : "r"(uint32_t(b)));
  return r;
}
template <>
__device__ __forceinline__ double number<double>(uint64_t b) {
  double r;
  asm("mov.b64 %0, %1;" : "=d"(r) : "l"(b));
  return r;
}

template <class V>
__device__ __forceinline__ V smaller(V a, V b) { return b < a ? b : a; }
template <class V>
__device__ __forceinline__ V larger(V a, V b) { return a < b ? b : a; }
__device__ __forceinline__ float smaller(float a, float b) { return __builtin_fminf(a, b); }
__device__ __forceinline__ float larger(float a, float b) { return __builtin_fmaxf(a, b); }
__device__ __forceinline__ double smaller(double a, double b) { return __builtin_fmin(a, b); }
__device__ __forceinline__ double larger(double a, double b) { return __builtin_fmax(a, b); }

template <uint32_t Op, class V>
__device__ __forceinline__ V combine(V a, V b) {
  return Op == kSum ? a + b : Op == kMin ? smaller(a, b) : larger(a, b);
}
template <class V>
__device__ __forceinline__ V combine(uint32_t op, V a, V b) {
  return op == kSum ? combine<kSum>(a, b) : op == kMin ? combine<kMin>(a, b) : combine<kMax>(a, b);
}
template <class V>
__device__ __forceinline__ V from_lane(V v, uint32_t lane) { return number<V>(shuffle(kAll, bits(v), lane)); }

// ---- tiles ------------------------------------------------------------------

// Cells is the memory of a tile: its values, and then the results of the segments that end in the
// tile. Each thread of a warp reads consecutive values. A gap after every 128 bytes puts the reads
// of different threads in different banks.
template <class V>
struct Cells {
  static constexpr uint32_t kGap = 128 / sizeof(V);
  V cell[kReduceTile + kReduceTile / kGap];
  __device__ __forceinline__ V& operator[](uint32_t i) { return cell[i + i / kGap]; }
};

// reduce combines the values of a tile. Each thread combines consecutive values. The warp and the
// block then combine the partial results that threads pass on to later threads.
template <uint32_t Op, class V>
__device__ __forceinline__ void reduce(const ReduceParams& p) {
  __shared__ Cells<V> cells;
  __shared__ uint32_t ends[kReduceTile / kWarp];  // one bit per value: the last of its segment
  __shared__ uint32_t segment_of[kReduceTile];    // segment of each value that is the last
  __shared__ V rests[kWarps];                     // result of the values after a warp's last end
  __shared__ bool ended[kWarps];
  uint32_t tile = block_index(), thread = thread_in_block(), lane = lane_index(), warp = thread / kWarp;
  Cut from = p.cuts[tile], to = p.cuts[tile + 1];
  uint32_t n = to.value - from.value, m = to.segment - from.segment;
  if (n + m == 0) return;
  uint64_t base = offset(p, 0) + from.value;
  const V* values = (const V*)p.values + base;
  const V none = number<V>(p.identity);

  if (thread < kReduceTile / kWarp) store_weak(shared(ends) + thread, 0u);
  V v[kReduceItems];
#pragma unroll
  for (uint32_t i = 0; i < kReduceItems; i++) {
    uint32_t at = i * kReduceThreads + thread;
    v[i] = at < n ? values[at] : none;
  }
#pragma unroll
  for (uint32_t i = 0; i < kReduceItems; i++) {
    uint32_t at = i * kReduceThreads + thread;
    if (at < n) cells[at] = v[i];
  }
  sync_block();
  for (uint32_t s = thread; s < m; s += kReduceThreads) {
    uint64_t first = offset(p, from.segment + s), end = offset(p, from.segment + s + 1);
    if (end > (first > base ? first : base)) {
      uint32_t last = uint32_t(end - base) - 1;
      or_relaxed(shared(ends) + last / kWarp, 1u << last % kWarp);
      store_weak(shared(segment_of) + last, s);
    } else {
      cells[n + s] = none;
    }
  }
  sync_block();

  uint32_t begin = thread * kReduceItems, last_of = load_weak(shared(ends) + begin / kWarp) >> begin % kWarp;
  V rest = none, first = none;
  uint32_t first_end = kAll;
#pragma unroll
  for (uint32_t i = 0; i < kReduceItems; i++) {
    if (begin + i < n) rest = combine<Op>(rest, cells[begin + i]);
    if (last_of >> i & 1) {
      uint32_t s = load_weak(shared(segment_of) + (begin + i));
      if (first_end == kAll)
        first = rest, first_end = s;
      else
        cells[n + s] = rest;
      rest = none;
    }
  }
  // Combine the values that follow the last end in the threads of the warp up to this one.
  uint32_t with_end = ballot(kAll, first_end != kAll), up_to_me = with_end & (kAll >> (kWarp - 1 - lane));
  uint32_t start = up_to_me ? highest(up_to_me) : 0;
#pragma unroll
  for (uint32_t d = 1; d < kWarp; d *= 2) {
    V other = from_lane(rest, lane - d);
    if (lane >= start + d) rest = combine<Op>(other, rest);
  }
  if (lane == kWarp - 1) rests[warp] = rest, ended[warp] = with_end;
  sync_block();
  V of_warps = none;
  for (uint32_t w = warp; w-- > 0;) {
    of_warps = combine<Op>(rests[w], of_warps);
    if (ended[w]) break;
  }
  V before = from_lane(rest, lane - 1);
  if (lane == 0) before = none;
  if (!(with_end & ((1u << lane) - 1))) before = combine<Op>(of_warps, before);
  if (first_end != kAll) cells[n + first_end] = combine<Op>(before, first);
  if (thread == kReduceThreads - 1) ((V*)p.carries)[tile] = with_end ? rest : combine<Op>(of_warps, rest);
  sync_block();
  for (uint32_t s = thread; s < m; s += kReduceThreads) ((V*)p.out)[from.segment + s] = cells[n + s];
}

// sum_carries combines carries lo to hi-1. Each thread combines every step-th carry, and then each
// warp combines the results of its lanes. Each lane returns the result of its warp.
template <class V>
__device__ __forceinline__ V sum_carries(const ReduceParams& p, uint32_t lo, uint32_t hi, uint32_t step) {
  const V* carries = (const V*)p.carries;
  V sum = number<V>(p.identity);
#pragma unroll 4
  for (uint32_t t = lo; t < hi; t += step) sum = combine(p.op, sum, carries[t]);
#pragma unroll
  for (uint32_t d = 1; d < kWarp; d *= 2) sum = combine(p.op, sum, from_lane(sum, lane_index() ^ d));
  return sum;
}

// Carried is the first segment that ends in a tile. lo is the first earlier tile that has a carry
// for the segment, or the tile itself if no earlier tile has one.
struct Carried {
  uint32_t segment, lo;
};

__device__ __forceinline__ Carried carried(const ReduceParams& p, uint32_t tile) {
  if (tile == 0 || tile >= p.tiles) return {0, tile};
  uint32_t segment = p.cuts[tile].segment, lo = tile - 1;
  if (p.cuts[tile + 1].segment == segment) return {segment, tile};
  if (p.cuts[lo].segment < segment) return {segment, lo};
  lo = 0;
  for (uint32_t hi = tile - 1; lo < hi;) {
    uint32_t mid = (lo + hi) / 2;
    if (p.cuts[mid + 1].segment == segment)
      hi = mid;
    else
      lo = mid + 1;
  }
  return {segment, lo};
}

// carry adds the carries of earlier tiles to the first segment that ends in a tile. A warp takes
// one tile. If a segment spans many tiles, the whole block combines its carries.
template <class V>
__device__ __forceinline__ void carry(const ReduceParams& p) {
  __shared__ Carried long_segments[kWarps];
  __shared__ V sums[kWarps];
  uint32_t thread = thread_in_block(), lane = lane_index(), warp = thread / kWarp, first = block_index() * kWarps;
  uint32_t tile = first + warp;
  Carried c = carried(p, tile);
  bool is_long = tile - c.lo > kLongCarry;
  V* out = (V*)p.out;
  if (lane == 0) long_segments[warp] = is_long ? c : Carried{0, kAll};
  if (tile > c.lo && !is_long) {
    V sum = sum_carries<V>(p, c.lo + lane, tile, kWarp);
    if (lane == 0) out[c.segment] = combine(p.op, sum, out[c.segment]);
  }
  sync_block();
  for (uint32_t w = 0; w < kWarps; w++) {
    Carried l = long_segments[w];
    if (l.lo == kAll) continue;
    V sum = sum_carries<V>(p, l.lo + thread, first + w, kReduceThreads);
    if (lane == 0) sums[warp] = sum;
    sync_block();
    if (thread == 0) {
      V all = sums[0];
      for (uint32_t i = 1; i < kWarps; i++) all = combine(p.op, all, sums[i]);
      out[l.segment] = combine(p.op, all, out[l.segment]);
    }
    sync_block();
  }
}

}  // namespace weft::prim

using namespace weft::prim;

#define WEFT_KERNEL extern "C" __global__ void __launch_bounds__(kReduceThreads)
#define WEFT_REDUCE(name, V)                                                  \
  WEFT_KERNEL reduce_sum_##name(ReduceParams p) { reduce<kSum, V>(p); }      \
  WEFT_KERNEL reduce_min_##name(ReduceParams p) { reduce<kMin, V>(p); }      \
  WEFT_KERNEL reduce_max_##name(ReduceParams p) { reduce<kMax, V>(p); }      \
  WEFT_KERNEL reduce_carry_##name(ReduceParams p) { carry<V>(p); }
WEFT_KERNEL reduce_cut(ReduceParams p) { cut(p); }
WEFT_REDUCE(u32, uint32_t)
WEFT_REDUCE(u64, uint64_t)
WEFT_REDUCE(i32, int32_t)
WEFT_REDUCE(i64, int64_t)
WEFT_REDUCE(f32, float)
WEFT_REDUCE(f64, double)
