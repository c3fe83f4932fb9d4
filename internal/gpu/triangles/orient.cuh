// Builds the oriented view, which has each edge once, at the end of smaller degree.
#pragma once

#include "rows.cuh"

namespace weft::triangles {

struct OrientParams {
  Rows graph;
  uint32_t* kept;       // one bit per arc: whether the arc is kept
  uint32_t* counts;     // number of bits set in each word of kept
  // number of arcs kept before each word, and then their total; the second and third launch read it
  const uint32_t* before;
  uint64_t* offsets;    // offsets and neighbors of the view
  uint32_t* neighbors;
};

// rises reports whether an arc of v is in the view. A duplicate of an arc is not in the view.
__device__ __forceinline__ bool rises(const Rows& g, uint32_t v, uint32_t arc) {
  const uint32_t u = g.neighbors[arc], own = degree_of(g, v), other = degree_of(g, u);
  if (other < own || (other == own && u <= v)) return false;
  return arc == begin_of(g, v) || g.neighbors[arc - 1] != u;
}

// orient_choose marks the arcs to keep.
__device__ __forceinline__ void orient_choose(const OrientParams& p) {
  const uint32_t lane = lane_index(), words = (p.graph.arcs - 1) / kWarp + 1;
  for (uint64_t w = thread_index() / kWarp; w * kStrip < p.graph.arcs; w += threads_in_grid() / kWarp) {
    const uint32_t first = uint32_t(w) * kStrip, n = p.graph.arcs - first < kStrip ? p.graph.arcs - first : kStrip;
    uint32_t row = row_of(p.graph.offsets, 0, p.graph.vertices - 1, first), mine = 0;
    const uint32_t last = row_of(p.graph.offsets, row, p.graph.vertices - 1, first + n - 1);
    for (uint32_t word = 0; word * kWarp < n; word++) {
      const uint32_t i = word * kWarp + lane;
      bool keeps = false;
      if (i < n) {
        row = row_of(p.graph.offsets, row, last, first + i);
        keeps = rises(p.graph, row, first + i);
      }
      const uint32_t bits = ballot(kAll, keeps);
      if (lane == word) mine = bits;
    }
    const uint32_t at = first / kWarp + lane;
    if (at < words) {
      p.kept[at] = mine;
      p.counts[at] = popcount(mine);
    }
  }
}

// orient_rows writes where the rows of the view begin.
__device__ __forceinline__ void orient_rows(const OrientParams& p) {
  for (uint64_t v = thread_index(); v <= p.graph.vertices; v += threads_in_grid()) {
    p.offsets[v] = kept_before(p.kept, p.before, uint32_t(p.graph.offsets[v]));
  }
}

// orient_keep copies the arcs that are kept to the view.
__device__ __forceinline__ void orient_keep(const OrientParams& p) {
  const uint32_t lane = lane_index();
  for (uint64_t word = thread_index() / kWarp; word * kWarp < p.graph.arcs; word += threads_in_grid() / kWarp) {
    const uint32_t bits = p.kept[word];
    if (bits >> lane & 1) p.neighbors[p.before[word] + popcount(bits & ((1u << lane) - 1))] = p.graph.neighbors[word * kWarp + lane];
  }
}

}  // namespace weft::triangles
