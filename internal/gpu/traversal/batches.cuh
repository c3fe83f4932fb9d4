// Batches of edges that have changed a graph, and the update of components after a batch.
#pragma once

#include "rows.cuh"

namespace weft::traversal {

// Batch is a list of edges. Edges with a zero in done are ignored.
struct Batch {
  const uint32_t* from;
  const uint32_t* to;
  const uint8_t* done;  // null: no edge is ignored
  uint64_t n;
};

// for_each_edge calls f(u, v) for each edge that is not ignored, one thread per edge.
template <class F>
__device__ __forceinline__ void for_each_edge(const Batch& b, F f) {
  for (uint64_t i = thread_index(); i < b.n; i += threads_in_grid()) {
    if (b.done == nullptr || b.done[i] != 0) f(b.from[i], b.to[i]);
  }
}

struct CheckParams {
  Batch batch;
  // Two words, initially 2^64-1. They receive the first index of an edge with an end beyond the
  // limit, and the inverted number of vertices.
  uint64_t* told;
  uint64_t limit;
};

__device__ __forceinline__ void edges_check(const CheckParams& p) {
  uint64_t bad = ~uint64_t(0), most = 0;
  for (uint64_t i = thread_index(); i < p.batch.n; i += threads_in_grid()) {
    if (p.batch.done != nullptr && p.batch.done[i] == 0) continue;
    const uint32_t u = p.batch.from[i], v = p.batch.to[i];
    const uint64_t end = uint64_t(u > v ? u : v) + 1;
    if (end > p.limit && i < bad) bad = i;
    if (end > most) most = end;
  }
  least_of(p.told, bad);
  least_of(p.told + 1, ~most);
}

// ---- components ------------------------------------------------------------

struct ForestParams {
  Batch batch;
  const uint64_t* told;  // from edges_check; if a vertex does not exist, no trees are merged
  uint64_t* united;      // the kernel adds the number of trees merged into another
  uint32_t* parents;     // parent of each vertex, not larger than the vertex; a root is its own
  uint32_t from;         // first new vertex
  uint32_t vertices;
};

__device__ __forceinline__ void forest_grow(const ForestParams& p) {
  for (uint64_t v = p.from + thread_index(); v < p.vertices; v += threads_in_grid()) p.parents[v] = uint32_t(v);
}

// root returns the root of a vertex, and halves the path to the root. Parents only decrease, and
// stay in the tree.
__device__ __forceinline__ uint32_t root(uint32_t* parents, uint32_t v) {
  for (;;) {
    const uint32_t up = load_relaxed(parents + v), further = load_relaxed(parents + up);
    if (up == further) return up;
    min_relaxed(parents + v, further);
    v = further;
  }
}

// unite merges the trees of two vertices. It reports whether the trees were different.
__device__ __forceinline__ bool unite(uint32_t* parents, uint32_t u, uint32_t v) {
  for (;;) {
    u = root(parents, u);
    v = root(parents, v);
    if (u == v) return false;
    const uint32_t high = u > v ? u : v, low = u > v ? v : u;
    if (cas_relaxed(parents + high, high, low) == high) return true;
  }
}

__device__ __forceinline__ void forest_unite(const ForestParams& p) {
  if (p.told[0] != ~uint64_t(0) || ~p.told[1] > p.vertices) return;
  uint64_t united = 0;
  for_each_edge(p.batch, [&](uint32_t u, uint32_t v) { united += unite(p.parents, u, v); });
  add_warp_sum(p.united, united);
}

}  // namespace weft::traversal
