// Kernels of a user that read graphs which change, by a graph::Ref.
#include "weft/entry.cuh"
#include "weft/graph.cuh"
#include "weft/sums.cuh"

using namespace weft;

constexpr int kBlock = 256;

#if WEFT_VALUE_BITS == 0
using W = void;
#else
using W = Integer<WEFT_VALUE_BITS>::Type;
#endif
using Ref = graph::Ref<W>;

struct SumParams {
  Ref ref;
  uint64_t* neighbors;  // added to: their numbers
  uint64_t* weights;    // added to
};

// sum adds up the neighbors of all vertices.
WEFT_KERNEL(neighbors_sum, 8)(SumParams p) {
  uint64_t sum = 0, weights = 0;
  p.ref.for_each_arc([&](uint32_t, uint32_t v, auto... w) {
    sum += v;
    weights += (uint64_t(w) + ... + 0);
  });
  add_up(p.neighbors, sum);
  if (Ref::kBits != 0) add_up(p.weights, weights);
}

struct AskParams {
  Ref ref;
  const uint32_t* from;
  const uint32_t* to;
  uint32_t* degrees;   // of from
  uint8_t* exists;     // the edge from one to the other
  uint64_t* weights;   // of those that exist; else 0
  uint64_t* sums;      // of the neighbors of from, by a lane
  uint64_t* by_tiles;  // by a tile; added to
  uint32_t n;
  uint32_t unused;
};

// ask asks each question by a lane, when others have returned.
WEFT_KERNEL(neighbors_ask, 4)(AskParams p) {
  const uint64_t i = thread_index();
  if (i >= p.n) return;
  const uint32_t u = p.from[i], v = p.to[i];
  p.degrees[i] = p.ref.degree(u);
  p.exists[i] = p.ref.edge_exists(u, v) | p.ref.there(u) << 1;
  uint64_t weight = 0;
#if WEFT_VALUE_BITS != 0
  W w;
  if (p.ref.find(u, v, &w)) weight = uint64_t(w);
#endif
  p.weights[i] = weight;
  uint64_t sum = 0;
  p.ref.for_each(u, [&](uint32_t v, auto...) { sum = sum * 3 + v; });
  p.sums[i] = sum;
}

// tiles adds up neighbors, a tile for each question.
WEFT_KERNEL(neighbors_tiles, 4)(AskParams p) {
  const uint64_t i = thread_index() / Ref::kTile;
  if (i >= p.n) return;
  uint64_t sum = 0;
  p.ref.for_each_tile(p.from[i], [&](uint32_t v, auto...) { sum += v; });
  if (sum != 0) add_relaxed(&p.by_tiles[i], sum);
}
