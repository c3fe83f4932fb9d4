// Triangles in graphs of package slab by lookups, as in the thesis (doc.go). graph_triangles.go
// explains the launches.
#pragma once

#include "graph.cuh"
#include "weft/deal.cuh"

namespace weft::slab {

struct CloseParams {
  Graph graph;
  const uint64_t* offsets;  // offsets of the oriented view, with rows in no order
  const uint32_t* neighbors;
  uint64_t* closed;  // the kernel adds the number of pairs with an edge
  uint32_t vertices;
  uint32_t arcs;
};

// close looks up the pairs of neighbors in each row. An arc of the view has a pair with each
// earlier arc in its row. A warp takes 32 arcs and distributes their pairs over its lanes.
template <class S>
__device__ __forceinline__ void close(const CloseParams& p) {
  const uint32_t lane = lane_index();
  uint64_t closed = 0;
  for (uint64_t a = thread_index(); a - lane < p.arcs; a += threads_in_grid()) {
    const uint32_t first = uint32_t(a) - lane, last = p.arcs - first < kWarp ? p.arcs - 1 : first + kWarp - 1;
    const uint32_t lo = row_of(p.offsets, 0, p.vertices - 1, first), hi = row_of(p.offsets, lo, p.vertices - 1, last);
    uint32_t begin = 0, n = 0, v = 0;
    if (a < p.arcs) {
      begin = uint32_t(p.offsets[row_of(p.offsets, lo, hi, uint32_t(a))]);
      n = uint32_t(a) - begin, v = p.neighbors[a];
    }
    const uint32_t sum = running(n), all = shuffle(kAll, sum, kWarp - 1), start = begin - (sum - n);
    for (uint32_t t = lane; t - lane < all; t += kWarp) {
      const bool there = t < all;
      const uint32_t from = owner(sum, there ? t : 0);
      const uint32_t at = shuffle(kAll, start, from) + t, u = shuffle(kAll, v, from);
      typename S::Key value;
      closed += find<S, false>(p.graph, there, there ? arc_of(u, p.neighbors[at]) : 0, value);
    }
  }
  add_warp_sum(p.closed, closed);
}

}  // namespace weft::slab
