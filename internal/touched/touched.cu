// Kernels that list the ends of edges, each once and in ascending order. touched.go explains them.
#include "weft/access.cuh"
#include "weft/lookback.cuh"
#include "weft/shared.cuh"
#include "weft/sums.cuh"
#include "weft/warp.cuh"

namespace weft::touched {

constexpr uint32_t kThreads = 256, kWarps = kThreads / kWarp;
constexpr uint32_t kRows = 4;                             // groups of 32 words in a tile, per warp
constexpr uint32_t kTileWords = kThreads * kRows;         // same as tileWords in touched.go
constexpr uint64_t kTileVertices = uint64_t(kTileWords) * 32;
constexpr uint32_t kGatherThreads = 1024;                 // same as gatherThreads
// words per block in shared memory; same as ownWords
constexpr uint32_t kBlockWords = 12288;
constexpr uint32_t kOwnVertices = kBlockWords * 32;

struct MarkParams {
  const uint32_t* from;
  const uint32_t* to;
  const uint8_t* done;  // edges with a zero here are ignored; null: no edge is ignored
  uint32_t* bits;       // one per vertex
  uint32_t* end;        // one more than the largest marked vertex
  uint64_t n;
  uint32_t vertices;    // ends at or above it are ignored
  uint32_t ranges;      // number of ranges of vertices; each block of gather has one range
};

struct ListParams {
  uint32_t* bits;      // bits of whole tiles, which list clears
  const uint32_t* end;
  uint32_t* next;      // next tile that a block begins
  uint64_t* status;    // one word per tile
  uint32_t* out;
  uint64_t* count;     // output: number of marked vertices
  uint64_t room;       // maximum number of vertices to write
};

// note marks a vertex. A hub is an end of many edges, so a thread that finds the vertex marked
// writes nothing.
__device__ __forceinline__ void note(const MarkParams& p, uint32_t v, uint32_t& end) {
  if (v >= p.vertices) return;
  uint32_t* word = p.bits + v / 32;
  const uint32_t bit = 1u << v % 32;
  if ((load_relaxed(word) & bit) == 0) or_relaxed(word, bit);
  if (v >= end) end = v + 1;
}

// for_each_end calls f for both ends of every step-th edge from edge first on. For ignored edges,
// it calls f(2^32-1) instead. A thread has four edges in flight.
template <class F>
__device__ __forceinline__ void for_each_end(const MarkParams& p, uint64_t first, uint64_t step, F f) {
  constexpr uint32_t kAtOnce = 4;
  for (; first < p.n; first += kAtOnce * step) {
    uint32_t u[kAtOnce], v[kAtOnce];
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce; k++) {
      const uint64_t i = first + k * step;
      const bool counts = i < p.n && (p.done == nullptr || p.done[i] != 0);
      u[k] = counts ? p.from[i] : ~0u, v[k] = counts ? p.to[i] : ~0u;
    }
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce; k++) {
      f(u[k]);
      f(v[k]);
    }
  }
}

// reach raises *p.end to the maximum of end in a warp.
__device__ __forceinline__ void reach(const MarkParams& p, uint32_t end) {
  sync_warp();
  end = warp_max(end);
  if (lane_index() == 0 && end > load_relaxed(p.end)) max_relaxed(p.end, end);
}

// mark marks the ends of all edges that are not ignored.
__device__ __forceinline__ void mark(const MarkParams& p) {
  uint32_t end = 0;
  for_each_end(p, thread_index(), threads_in_grid(), [&](uint32_t v) { note(p, v, end); });
  reach(p, end);
}

// gather is mark for few vertices and many edges. A block marks the vertices of one range in shared
// memory, and then merges these marks into p.bits.
__device__ __forceinline__ void gather(const MarkParams& p) {
  __shared__ uint32_t shared_own[kBlockWords];
  const Shared<uint32_t> own = shared(shared_own);
  const uint32_t range = block_index() % p.ranges, base = range * kOwnVertices, blocks = blocks_in_grid() / p.ranges;
  for (uint32_t i = thread_in_block(); i < kBlockWords; i += kGatherThreads) store_weak(own + i, 0u);
  sync_block();
  uint32_t end = 0;
  const uint64_t first = uint64_t(block_index() / p.ranges) * kGatherThreads + thread_in_block();
  for_each_end(p, first, uint64_t(blocks) * kGatherThreads, [&](uint32_t v) {
    const uint32_t at = v - base;
    if (v >= p.vertices || at >= kOwnVertices) return;
    const Shared<uint32_t> word = own + at / 32;
    const uint32_t bit = 1u << at % 32;
    if ((load_relaxed(word) & bit) == 0) or_relaxed(word, bit);
    if (v >= end) end = v + 1;
  });
  reach(p, end);
  sync_block();
  for (uint32_t i = thread_in_block(); i < kBlockWords; i += kGatherThreads) {
    const uint32_t word = load_weak(own + i);
    if (word != 0) or_relaxed(p.bits + base / 32 + i, word);
  }
}

// list writes the marked vertices, tile by tile, up to the last tile that has a marked vertex.
__device__ __forceinline__ void list(const ListParams& p) {
  __shared__ prim::Tiles shared_tile;
  __shared__ uint64_t shared_sums[kWarps];
  const uint32_t lane = lane_index(), warp = thread_in_block() / kWarp, end = *p.end;
  for (;;) {
    const uint32_t tile = prim::begin_tile(&shared_tile, p.next);
    if (tile > 0 && tile * kTileVertices >= end) return;
    const uint64_t first = uint64_t(tile) * kTileWords + warp * kRows * kWarp;
    uint32_t words[kRows], sum = 0;
#pragma unroll
    for (uint32_t r = 0; r < kRows; r++) words[r] = p.bits[first + r * kWarp + lane];
#pragma unroll
    for (uint32_t r = 0; r < kRows; r++) {
      if (words[r] != 0) p.bits[first + r * kWarp + lane] = 0;
      sum += popcount(words[r]);
    }
    uint64_t total;
    uint64_t at = prim::block_before<kWarps>(&shared_tile, shared(shared_sums), p.status, tile, prim::sum_of_warp(sum), total);
#pragma unroll
    for (uint32_t r = 0; r < kRows; r++) {
      // A warp writes the vertices of a word, one per lane.
      for (uint32_t left = ballot(kAll, words[r] != 0); left != 0; left &= left - 1) {
        const uint32_t from = lowest(left), word = shuffle(kAll, words[r], from);
        const uint64_t to = at + popcount(word & ((1u << lane) - 1));
        if ((word >> lane & 1) && to < p.room) p.out[to] = uint32_t((first + r * kWarp + from) * 32 + lane);
        at += popcount(word);
      }
    }
    if ((tile + 1) * kTileVertices >= end && thread_in_block() == 0) *p.count = total;
  }
}

}  // namespace weft::touched

using namespace weft;
using namespace weft::touched;

extern "C" __global__ void __launch_bounds__(kThreads) touched_mark(MarkParams p) { mark(p); }
extern "C" __global__ void __launch_bounds__(kGatherThreads) touched_gather(MarkParams p) { gather(p); }
extern "C" __global__ void __launch_bounds__(kThreads) touched_list(ListParams p) { list(p); }
