// User kernels that read graphs through a Ref: a graph::Ref or a slab::GraphRef.
#pragma once

#include "weft/entry.cuh"
#include "weft/sums.cuh"

namespace neighbors {

using namespace weft;

constexpr int kBlock = 256;

#if WEFT_VALUE_BITS == 0
using W = void;
#else
using W = Integer<WEFT_VALUE_BITS>::Type;
#endif

template <class Ref>
struct SumParams {
  Ref ref;
  uint64_t* neighbors;  // the kernel adds the vertex numbers of all neighbors
  uint64_t* weights;    // the kernel adds all weights
};

// sum adds up the neighbors of all vertices.
template <class Ref>
__device__ __forceinline__ void sum(const SumParams<Ref>& p) {
  uint64_t sum = 0, weights = 0;
  p.ref.for_each_arc([&](uint32_t, uint32_t v, auto... w) {
    sum += v;
    weights += (uint64_t(w) + ... + 0);
  });
  add_warp_sum(p.neighbors, sum);
  if (Ref::kBits != 0) add_warp_sum(p.weights, weights);
}

template <class Ref>
struct AskParams {
  Ref ref;
  const uint32_t* from;
  const uint32_t* to;
  uint32_t* degrees;   // degree of each vertex in from
  uint8_t* exists;     // whether each edge exists
  uint64_t* weights;   // weight of each edge that exists; otherwise 0
  uint64_t* sums;      // sum of the neighbors of each vertex in from, computed by one lane
  uint64_t* by_tiles;  // sums, to which a tile adds the neighbors of each vertex in from
  uint32_t n;
  uint32_t unused;
};

// ask runs query i in one lane, after other lanes have returned. add(sum, v) adds a neighbor.
template <class Ref, class Add>
__device__ __forceinline__ void ask(const AskParams<Ref>& p, uint64_t i, Add add) {
  const uint32_t u = p.from[i], v = p.to[i];
  p.degrees[i] = p.ref.degree(u);
  p.exists[i] = p.ref.edge_exists(u, v);
  uint64_t weight = 0;
#if WEFT_VALUE_BITS != 0
  W w;
  if (p.ref.find(u, v, &w)) weight = uint64_t(w);
#endif
  p.weights[i] = weight;
  uint64_t sum = 0;
  p.ref.for_each(u, [&](uint32_t v, auto...) { sum = add(sum, v); });
  p.sums[i] = sum;
}

// tiles adds up neighbors, one tile per query.
template <class Ref>
__device__ __forceinline__ void tiles(const AskParams<Ref>& p) {
  const uint64_t i = thread_index() / Ref::kTile;
  if (i >= p.n) return;
  uint64_t sum = 0;
  p.ref.for_each_tile(p.from[i], [&](uint32_t v, auto...) { sum += v; });
  if (sum != 0) add_relaxed(&p.by_tiles[i], sum);
}

}  // namespace neighbors
