// Rows of vertices, and operations of warps on them. triangles.go explains the algorithms.
#pragma once

#include "weft/access.cuh"
#include "weft/deal.cuh"
#include "weft/graph_table.cuh"
#include "weft/shared.cuh"
#include "weft/sums.cuh"

namespace weft::triangles {

constexpr uint32_t kThreads = 256;  // of a block
constexpr uint32_t kWarps = kThreads / kWarp;

// Rows is a graph in compressed sparse rows. Each row ascends. The graph has fewer than 2^32 arcs.
struct Rows {
  const uint64_t* offsets;  // vertices + 1 elements
  const uint32_t* neighbors;
  uint32_t vertices;
  uint32_t arcs;
};

__device__ __forceinline__ uint32_t begin_of(const Rows& g, uint32_t v) { return uint32_t(g.offsets[v]); }
__device__ __forceinline__ uint32_t degree_of(const Rows& g, uint32_t v) { return uint32_t(g.offsets[v + 1] - g.offsets[v]); }

__device__ __forceinline__ bool has(const uint32_t* row, uint32_t n, uint32_t x) {
  const uint32_t at = graph::lower_bound(row, n, x);
  return at < n && row[at] == x;
}

// The number of arcs that a warp takes at a time. Each lane has a word with one bit per arc.
constexpr uint32_t kStrip = kWarp * kWarp;

// kept_before returns the number of bits set before bit i; before has the number before each word.
__device__ __forceinline__ uint32_t kept_before(const uint32_t* kept, const uint32_t* before, uint32_t i) {
  const uint32_t word = i / kWarp, bit = i % kWarp;
  // If bit is 0, the array kept may end before the word.
  return before[word] + (bit == 0 ? 0 : popcount(kept[word] & ((1u << bit) - 1)));
}

}  // namespace weft::triangles
