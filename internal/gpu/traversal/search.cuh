// Breadth-first search in both directions, and connected components.
#pragma once

#include "rows.cuh"

namespace weft::traversal {

struct SearchParams {
  Rows rows;
  Frontier now;
  Frontier next;
  uint32_t* depths;  // kNone: not found yet
  uint32_t depth;    // depth of the vertices in now; for search_start, the source
  uint32_t unused;
};

__device__ __forceinline__ void search_start(const SearchParams& p) {
  if (thread_index() != 0) return;
  p.depths[p.depth] = 0;
  p.next.list[0] = p.depth;
  p.next.starts[0] = 0;
  *p.next.size = one(degree(p.rows, p.depth));
}

// search_down visits the neighbors of the vertices in now. It lists those that were not found yet.
__device__ __forceinline__ void search_down(const SearchParams& p) {
  for_each_arc(p.rows, p.now, 0, [&](bool there, uint32_t, uint64_t arc) {
    uint32_t u = 0;
    bool found = false;
    if (there) {
      u = p.rows.targets[arc];
      found = load_relaxed(p.depths + u) == kNone && cas_relaxed(p.depths + u, kNone, p.depth + 1) == kNone;
    }
    append(p.next, found, u, found ? degree(p.rows, u) : 0);
  });
}

// The number of neighbors that a lane checks alone, before its warp helps.
constexpr uint32_t kAlone = 16;

// search_up visits the vertices that were not found yet. It lists those that have a neighbor of
// depth p.depth.
__device__ __forceinline__ void search_up(const SearchParams& p) {
  const uint32_t lane = lane_index();
  for (uint64_t base = warp_index() * kWarp; base < p.rows.vertices; base += warps_in_grid() * kWarp) {
    const uint64_t v = base + lane;
    bool open = v < p.rows.vertices && load_relaxed(p.depths + v) == kNone, found = false;
    uint64_t at = open ? p.rows.offsets[v] : 0;
    const uint64_t end = open ? p.rows.offsets[v + 1] : 0, arcs = end - at;
    for (uint32_t i = 0; i < kAlone && at < end && !found; i++, at++) found = load_relaxed(p.depths + p.rows.targets[at]) == p.depth;
    open = !found && at < end;
    for (uint32_t lanes = ballot(kAll, open); lanes != 0; lanes &= lanes - 1) {
      const uint32_t who = lowest(lanes);
      const uint64_t to = shuffle(kAll, end, who);
      uint32_t hit = 0;
      for (uint64_t from = shuffle(kAll, at, who); from < to && hit == 0; from += kWarp) {
        hit = ballot(kAll, from + lane < to && load_relaxed(p.depths + p.rows.targets[from + lane]) == p.depth);
      }
      if (lane == who) found = hit != 0;
    }
    if (found) store_relaxed(p.depths + v, p.depth + 1);
    append(p.next, found, uint32_t(v), arcs);
  }
}

// ---- components ------------------------------------------------------------

// The number of neighbors with which each vertex is united first, one after the other.
constexpr uint32_t kFirst = 2;

struct UniteParams {
  Rows rows;
  Frontier rest;  // vertices with other edges to check
  uint32_t* labels;
  uint32_t* sample;  // the labels of some vertices
  uint64_t* count;
  uint32_t samples;
  uint32_t largest;  // label of the component that needs no further edges
  uint32_t nth;      // index of the neighbor with which unite_first unites each vertex
  uint32_t unused;
};

// link merges the trees of two vertices: the larger root then points to the smaller one. Labels
// only decrease, so link ends. In the end, the root of a component is its smallest vertex.
__device__ __forceinline__ void link(uint32_t* labels, uint32_t u, uint32_t v) {
  uint32_t a = load_relaxed(labels + u), b = load_relaxed(labels + v);
  while (a != b) {
    const uint32_t high = a > b ? a : b, low = a > b ? b : a;
    const uint32_t at = load_relaxed(labels + high);
    if (at == low || (at == high && cas_relaxed(labels + high, high, low) == high)) return;
    a = load_relaxed(labels + load_relaxed(labels + high));
    b = load_relaxed(labels + low);
  }
}

__device__ __forceinline__ void unite_start(const UniteParams& p) {
  for (uint64_t v = thread_index(); v < p.rows.vertices; v += threads_in_grid()) p.labels[v] = uint32_t(v);
}

__device__ __forceinline__ void unite_first(const UniteParams& p) {
  for (uint64_t v = thread_index(); v < p.rows.vertices; v += threads_in_grid()) {
    const uint64_t at = p.rows.offsets[v] + p.nth;
    if (at < p.rows.offsets[v + 1]) link(p.labels, uint32_t(v), p.rows.targets[at]);
  }
}

// unite_flatten makes all vertices point to their roots.
__device__ __forceinline__ void unite_flatten(const UniteParams& p) {
  for (uint64_t v = thread_index(); v < p.rows.vertices; v += threads_in_grid()) {
    uint32_t root = load_relaxed(p.labels + v);
    for (uint32_t up = load_relaxed(p.labels + root); up != root; up = load_relaxed(p.labels + root)) root = up;
    store_relaxed(p.labels + v, root);
  }
}

__device__ __forceinline__ void unite_sample(const UniteParams& p) {
  for (uint64_t i = thread_index(); i < p.samples; i += threads_in_grid()) p.sample[i] = p.labels[i * p.rows.vertices / p.samples];
}

// unite_pick lists the vertices that have more than kFirst neighbors and are not yet in the largest
// component.
__device__ __forceinline__ void unite_pick(const UniteParams& p) {
  for (uint64_t base = warp_index() * kWarp; base < p.rows.vertices; base += warps_in_grid() * kWarp) {
    const uint64_t v = base + lane_index();
    const uint64_t arcs = v < p.rows.vertices ? degree(p.rows, uint32_t(v)) : 0;
    const bool has = arcs > kFirst && p.labels[v] != p.largest;
    append(p.rest, has, uint32_t(v), arcs - kFirst);
  }
}

__device__ __forceinline__ void unite_rest(const UniteParams& p) {
  for_each_arc(p.rows, p.rest, kFirst, [&](bool there, uint32_t v, uint64_t arc) {
    if (there) link(p.labels, v, p.rows.targets[arc]);
  });
}

__device__ __forceinline__ void unite_count(const UniteParams& p) {
  uint64_t roots = 0;
  for (uint64_t v = thread_index(); v < p.rows.vertices; v += threads_in_grid()) roots += p.labels[v] == v;
  add_warp_sum(p.count, roots);
}

}  // namespace weft::traversal
