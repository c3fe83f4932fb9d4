// Builds rows that ascend and have both arcs of each edge. The given graph may have neither
// property.
#pragma once

#include "rows.cuh"

namespace weft::triangles {

struct AscendParams {
  Rows graph;
  uint64_t* keys;   // arcs with the source in the high bits; ascend_keys writes them unsorted
  uint32_t* kept;   // one bit per key: whether the key is kept
  uint32_t* counts; // number of bits set in each word of kept
  const uint32_t* before;  // number of keys kept before each word, and then their total
  uint64_t* offsets;
  uint32_t* neighbors;
  uint32_t arcs;    // number of keys
  uint32_t bits;    // bits of a vertex in a key
  uint32_t turned;  // not 0: keys include the reversed arcs, and duplicates are dropped
  uint32_t unused;
};

// ascend_keys writes the keys. A warp takes one strip of arcs at a time.
__device__ __forceinline__ void ascend_keys(const AscendParams& p) {
  const uint32_t last = p.graph.vertices - 1;
  for (uint64_t w = thread_index() / kWarp; w * kStrip < p.graph.arcs; w += threads_in_grid() / kWarp) {
    const uint32_t first = uint32_t(w) * kStrip, n = p.graph.arcs - first < kStrip ? p.graph.arcs - first : kStrip;
    uint32_t u = row_of(p.graph.offsets, 0, last, first);
    const uint32_t end = row_of(p.graph.offsets, u, last, first + n - 1);
    for (uint32_t i = lane_index(); i < n; i += kWarp) {
      u = row_of(p.graph.offsets, u, end, first + i);
      const uint32_t v = p.graph.neighbors[first + i];
      p.keys[first + i] = uint64_t(u) << p.bits | v;
      if (p.turned) p.keys[p.graph.arcs + first + i] = uint64_t(v) << p.bits | u;
    }
  }
}

// ascend_choose marks the keys to keep.
__device__ __forceinline__ void ascend_choose(const AscendParams& p) {
  const uint32_t lane = lane_index();
  for (uint64_t i = thread_index(); i - lane < p.arcs; i += threads_in_grid()) {
    const bool keeps = i < p.arcs && (!p.turned || i == 0 || p.keys[i - 1] != p.keys[i]);
    const uint32_t bits = ballot(kAll, keeps);
    if (lane == 0) {
      p.kept[i / kWarp] = bits;
      p.counts[i / kWarp] = popcount(bits);
    }
  }
}

// ascend_rows writes where rows begin.
__device__ __forceinline__ void ascend_rows(const AscendParams& p) {
  for (uint64_t v = thread_index(); v <= p.graph.vertices; v += threads_in_grid()) {
    p.offsets[v] = kept_before(p.kept, p.before, graph::lower_bound(p.keys, p.arcs, v << p.bits));
  }
}

// ascend_keep writes the neighbors of the keys that are kept.
__device__ __forceinline__ void ascend_keep(const AscendParams& p) {
  const uint32_t mask = uint32_t((uint64_t(1) << p.bits) - 1);
  for (uint64_t i = thread_index(); i < p.arcs; i += threads_in_grid()) {
    if (p.kept[i / kWarp] >> i % kWarp & 1) p.neighbors[kept_before(p.kept, p.before, uint32_t(i))] = uint32_t(p.keys[i]) & mask;
  }
}

}  // namespace weft::triangles
