// Kernels that draw neighbors of vertices. The draws equal those of package graph/algo in Go.
// sampling.go explains the kernels.
#include "weft/access.cuh"
#include "weft/hash.cuh"
#include "weft/warp.cuh"

namespace weft::sampling {

constexpr uint32_t kThreads = 256;

struct CheckParams {
  const uint32_t* vertices;
  uint64_t* bad;  // first index of a vertex that does not exist; initially 2^64-1
  uint64_t n;
  uint32_t limit;  // number of vertices
  uint32_t unused;
};

struct DrawParams {
  const uint64_t* offsets;
  const uint32_t* neighbors;
  const uint32_t* vertices;
  uint32_t* out;    // output: a row of fanout elements per vertex
  uint64_t* drawn;  // the kernel adds the number of neighbors drawn
  uint64_t seed;
  uint64_t n;
  uint32_t fanout;
  uint32_t replace;  // not 0: a neighbor may be drawn several times
};

constexpr uint32_t kNone = ~0u;
constexpr uint64_t kStep = 0x9e3779b97f4a7c15ul;
// The maximum fanout for which each draw is compared with all earlier draws. A lane has two draws.
constexpr uint32_t kSearched = 2 * kWarp;

// mix is the finalizer of SplitMix64, as in package workload.
__device__ __forceinline__ uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ul;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebul;
  return x ^ x >> 31;
}

// Row holds the neighbors of a vertex, and the mixed seed of the row.
struct Row {
  const uint32_t* from;
  uint32_t n;
  uint64_t seed;

  // below returns draw i, uniform in [0,n).
  __device__ __forceinline__ uint64_t below(uint64_t i, uint32_t n) const { return reduce(mix(seed + (i + 1) * kStep), uint64_t(n)); }
};

// draw_floyd draws fanout distinct neighbors by Floyd's algorithm, one after the other. Lane i
// holds draws i and i + 32.
__device__ __forceinline__ void draw_floyd(const Row& row, uint32_t* out, uint32_t fanout) {
  const uint32_t lane = lane_index(), first = row.n - fanout;
  uint32_t drawn[2] = {kNone, kNone}, at[2];  // at: chosen indices, kNone at first
#pragma unroll
  for (uint32_t h = 0; h < 2; h++) {
    const uint32_t j = h * kWarp + lane;
    if (j < fanout) drawn[h] = uint32_t(row.below(j, first + j + 1));
    at[h] = kNone;
  }
#pragma unroll
  for (uint32_t h = 0; h < 2; h++) {
    for (uint32_t i = 0; i < kWarp && h * kWarp + i < fanout; i++) {
      const uint32_t want = shuffle(kAll, drawn[h], i);
      const bool taken = ballot(kAll, at[0] == want || at[1] == want) != 0;
      if (lane == i) at[h] = taken ? first + h * kWarp + i : want;
    }
  }
#pragma unroll
  for (uint32_t h = 0; h < 2; h++) {
    const uint32_t j = h * kWarp + lane;
    if (j < fanout) out[j] = row.from[at[h]];
  }
}

// draw_sequential visits the neighbors in order, 32 at a time. It takes each neighbor with the
// probability that makes all sets of fanout neighbors equally likely.
__device__ __forceinline__ void draw_sequential(const Row& row, uint32_t* out, uint32_t fanout) {
  const uint32_t lane = lane_index();
  uint32_t taken = 0;
  for (uint32_t base = 0; taken < fanout; base += kWarp) {
    const uint32_t i = base + lane;
    const uint64_t draw = i < row.n ? row.below(i, row.n - i) : ~uint64_t(0);
    // Each neighbor that is taken lowers the number left to draw, so lanes decide one after the
    // other. A lane that would not take its neighbor now would not take it later, and is skipped.
    for (uint32_t open = kAll; taken < fanout;) {
      const uint32_t may = ballot(kAll, (open >> lane & 1) && draw < fanout - taken);
      if (may == 0) break;
      const uint32_t next = lowest(may);
      if (lane == next) out[taken] = row.from[i];
      taken++;
      open = next == kWarp - 1 ? 0 : kAll << (next + 1);
    }
  }
}

// draw_row draws the neighbors of a vertex with one warp. It returns the number of neighbors drawn.
__device__ __forceinline__ uint32_t draw_row(const DrawParams& p, const Row& row, uint32_t* out) {
  const uint32_t lane = lane_index();
  uint32_t drawn = p.fanout;
  if (row.n == 0) {
    drawn = 0;
  } else if (p.replace) {
    for (uint32_t j = lane; j < p.fanout; j += kWarp) out[j] = row.from[row.below(j, row.n)];
  } else if (row.n <= p.fanout) {
    drawn = row.n;
    for (uint32_t j = lane; j < drawn; j += kWarp) out[j] = row.from[j];
  } else if (p.fanout <= kSearched) {
    draw_floyd(row, out, p.fanout);
  } else {
    draw_sequential(row, out, p.fanout);
  }
  for (uint64_t j = uint64_t(drawn) + lane; j < p.fanout; j += kWarp) out[j] = kNone;
  return drawn;
}

}  // namespace weft::sampling

using namespace weft;
using namespace weft::sampling;

extern "C" __global__ void __launch_bounds__(kThreads) sampling_check(CheckParams p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    if (p.vertices[i] >= p.limit) min_relaxed(p.bad, i);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) sampling_draw(DrawParams p) {
  uint64_t drawn = 0;
  for (uint64_t i = thread_index() / kWarp; i < p.n; i += threads_in_grid() / kWarp) {
    const uint32_t v = p.vertices[i];
    const uint64_t begin = p.offsets[v];
    const Row row = {p.neighbors + begin, uint32_t(p.offsets[v + 1] - begin), mix(mix(mix(p.seed) + (i + 1) * kStep))};
    drawn += draw_row(p, row, p.out + i * p.fanout);
  }
  if (lane_index() == 0 && drawn != 0) add_relaxed(p.drawn, drawn);
}
