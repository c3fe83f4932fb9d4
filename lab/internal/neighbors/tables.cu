// User kernels that read graphs of package slab through a slab::GraphRef.
#include "weft/slab_graph.cuh"

#include "neighbors.cuh"

using namespace neighbors;
using Ref = slab::GraphRef<W>;

WEFT_KERNEL(tables_sum, 4)(SumParams<Ref> p) { sum(p); }
WEFT_KERNEL(tables_ask, 4)(AskParams<Ref> p) {
  const uint64_t i = thread_index();
  if (i >= p.n) return;
  ask(p, i, [](uint64_t sum, uint32_t v) { return sum + uint64_t(v) * v + 1; });
}
WEFT_KERNEL(tables_tiles, 4)(AskParams<Ref> p) { tiles(p); }
// together runs queries in whole warps.
WEFT_KERNEL(tables_together, 4)(AskParams<Ref> p) {
  const uint64_t i = thread_index();
  const bool there = i < p.n;
  const uint32_t u = there ? p.from[i] : 0, v = there ? p.to[i] : 0;
  const bool found = p.ref.edge_exists_warp(there, u, v);
  uint64_t weight = 0;
#if WEFT_VALUE_BITS != 0
  W w;
  if (p.ref.find_warp(there, u, v, &w)) weight = uint64_t(w);
#endif
  if (there) p.exists[i] = found, p.weights[i] = weight;
}
