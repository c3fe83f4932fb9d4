// Counts the triangles of a dynamic graph that contain at least one edge of a batch.
#pragma once

#include "rows.cuh"
#include "tuning.cuh"

namespace weft::triangles {

struct DeltaParams {
  graph::Graph graph;
  const uint32_t* from;  // ends of the edges
  const uint32_t* to;
  const uint8_t* only;  // edges with a zero here are ignored; null: no edge is ignored
  // both arcs of each edge, with the source in the high bits; the first launch writes them, and
  // they are sorted before the next launch
  uint64_t* keys;
  uint64_t* total;  // the kernels add the number of triangles
  uint32_t* tasks;  // tasks for blocks: indices in keys
  uint32_t* used;   // number of tasks
  uint32_t n;       // number of edges
  uint32_t bits;    // bits of a vertex in a key
};

// End is an end of an edge, with its neighbors and with the index and number of its arcs in keys.
struct End {
  uint32_t vertex;
  graph::Ids ids;
  uint32_t begin;
  uint32_t arcs;
};

// Edge is an edge of the batch: its key and its ends. less is the end with fewer neighbors.
struct Edge {
  uint64_t key;
  End less, more;
};

__device__ __forceinline__ uint64_t key_of(const DeltaParams& p, uint32_t u, uint32_t v) { return uint64_t(u) << p.bits | v; }

constexpr uint32_t kNoIndex = 0xffffffff;  // no index in keys

// end_of finds the arcs of an end in keys. at is the index of one of these arcs, or kNoIndex. An
// end has few arcs, so the search for their bounds begins at this index, in steps that double.
__device__ __forceinline__ End end_of(const DeltaParams& p, uint32_t v, uint32_t at) {
  const uint64_t first = key_of(p, v, 0), behind = key_of(p, v + 1, 0);
  const uint32_t n = 2 * p.n;
  uint32_t begin = 0, below = at, end, step = 1;
  if (at < n) {
    for (; step <= below && p.keys[below - step] >= first; step *= 2) below -= step;
    begin = step <= below ? below - step : 0;
    below -= begin;
  } else {
    below = n;
  }
  begin += graph::lower_bound(p.keys + begin, below, first);
  end = at < n ? at : begin;
  for (step = 1; end + step < n && p.keys[end + step] < behind; step *= 2) end += step;
  const uint32_t left = end + step < n ? step : n - end;
  end += graph::lower_bound(p.keys + end, left, behind);
  return {v, graph::ids(p.graph, v), begin, end - begin};
}

// edge_at finds the edge of arc i, and reports whether the graph has the edge. Of the arcs of an
// edge, it returns true for only one.
__device__ __forceinline__ bool edge_at(const DeltaParams& p, uint64_t i, Edge& e) {
  e.key = p.keys[i];
  const uint32_t u = uint32_t(e.key >> p.bits), v = uint32_t(e.key & ((uint64_t(1) << p.bits) - 1));
  if (u >= v || (i > 0 && p.keys[i - 1] == e.key)) return false;
  const bool turned = graph::degree(p.graph, v) < graph::degree(p.graph, u);
  const uint32_t less = turned ? v : u, more = turned ? u : v;
  const graph::Ids ids = graph::ids(p.graph, less);
  if (!has(ids.at, ids.n, more)) return false;
  e.less = end_of(p, less, turned ? kNoIndex : uint32_t(i));
  e.more = end_of(p, more, turned ? uint32_t(i) : kNoIndex);
  return true;
}

// precedes reports whether the edge from an end to w is in the batch and precedes e.
__device__ __forceinline__ bool precedes(const DeltaParams& p, const Edge& e, const End& end, uint32_t w) {
  const uint32_t u = end.vertex;
  if (key_of(p, u < w ? u : w, u < w ? w : u) >= e.key) return false;
  const uint64_t arc = key_of(p, u, w);
  const uint32_t at = graph::lower_bound(p.keys + end.begin, end.arcs, arc);
  return at < end.arcs && p.keys[end.begin + at] == arc;
}

// common counts the triangles in which e is the first edge of the batch. The neighbors of one end
// are distributed to the threads.
__device__ __forceinline__ uint64_t common(const DeltaParams& p, const Edge& e, uint32_t rank, uint32_t threads) {
  const graph::Ids less = e.less.ids, more = e.more.ids;
  const uint32_t u = e.less.vertex, v = e.more.vertex;
  uint64_t count = 0;
  for (uint32_t i = rank; i < less.n; i += threads) {
    const uint32_t w = less.at[i];
    if (w == u || w == v || (i > 0 && less.at[i - 1] == w)) continue;  // a loop or parallel edges
    if (!has(more.at, more.n, w)) continue;
    if (!precedes(p, e, e.less, w) && !precedes(p, e, e.more, w)) count++;
  }
  return count;
}

// delta_keys writes the arcs of edges. Loops, edges with ends that do not exist, and ignored edges
// get keys that sort after all others.
__device__ __forceinline__ void delta_keys(const DeltaParams& p) {
  const uint64_t none = key_of(p, p.graph.vertices, 0);
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint32_t u = p.from[i], v = p.to[i];
    const bool may = u != v && u < p.graph.vertices && v < p.graph.vertices && !(p.only && p.only[i] == 0);
    p.keys[2 * i] = may ? key_of(p, u, v) : none;
    p.keys[2 * i + 1] = may ? key_of(p, v, u) : none;
  }
}

// delta_count counts triangles. Each lane of a warp finds an edge, and the warp processes these
// edges one after the other. It leaves edges between hubs to blocks.
__device__ __forceinline__ void delta_count(const DeltaParams& p) {
  __shared__ Edge found[kThreads];  // in registers, edges would halve the number of warps
  const uint32_t lane = lane_index(), mine = thread_in_block(), first = mine - lane;
  const uint64_t arcs = 2 * uint64_t(p.n);
  uint64_t count = 0;
  for (uint64_t i = thread_index(); i - lane < arcs; i += threads_in_grid()) {
    bool counts = i < arcs && edge_at(p, i, found[mine]);
    if (counts && found[mine].less.ids.n > kMaxWarpNeighbors) {
      p.tasks[add_relaxed(p.used, 1u)] = uint32_t(i);
      counts = false;
    }
    sync_warp();
    for (uint32_t left = ballot(kAll, counts); left != 0; left &= left - 1) count += common(p, found[first + lowest(left)], lane, kWarp);
    sync_warp();
  }
  add_warp_sum(p.total, count);
}

// delta_hubs counts the triangles of the edges that delta_count has left to blocks.
__device__ __forceinline__ void delta_hubs(const DeltaParams& p) {
  uint64_t count = 0;
  for (uint32_t i = block_index(), n = *p.used; i < n; i += blocks_in_grid()) {
    Edge e = {};
    edge_at(p, p.tasks[i], e);
    count += common(p, e, thread_in_block(), kThreads);
  }
  add_warp_sum(p.total, count);
}

}  // namespace weft::triangles
