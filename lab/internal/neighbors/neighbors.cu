// User kernels that read graphs of package graph through a graph::Ref.
#include "weft/graph.cuh"

#include "neighbors.cuh"

using namespace neighbors;
using Ref = graph::Ref<W>;

WEFT_KERNEL(neighbors_sum, 8)(SumParams<Ref> p) { sum(p); }
WEFT_KERNEL(neighbors_ask, 4)(AskParams<Ref> p) {
  const uint64_t i = thread_index();
  if (i >= p.n) return;
  // The result depends on the order of neighbors.
  ask(p, i, [](uint64_t sum, uint32_t v) { return sum * 3 + v; });
  p.exists[i] |= p.ref.there(p.from[i]) << 1;
}
WEFT_KERNEL(neighbors_tiles, 4)(AskParams<Ref> p) { tiles(p); }
