// Traversal of vertices in the order of a number per vertex: a distance or a degree. The kernels
// first process the vertices with the smallest numbers, all at the same time. This changes the
// numbers of their neighbors. When no such vertex is left, the kernels find the smallest number of
// the other vertices and list the vertices to process next. Shortest paths and cores use this.
#pragma once

#include "rows.cuh"

namespace weft::traversal {

// Level is the state that a launch passes to the next ones. A launch without work does nothing. For
// example, the search for the smallest number does nothing while vertices are left in the list.
struct Level {
  // sizes of three lists in rotation: of this round, the next round, and the previous round, which
  // is emptied
  uint64_t sizes[3];
  uint64_t least;     // smallest number of a vertex not listed yet; ~0: not computed, or none left
  uint64_t above;     // cores: vertices with smaller degrees are done
  double threshold;   // paths: vertices with smaller distances are done, or in a list
};

constexpr uint64_t kNotComputed = ~uint64_t(0);

// ---- shortest paths --------------------------------------------------------

enum Weight : uint32_t { kUint32, kUint64, kInt32, kInt64, kFloat32, kFloat64 };

struct PathParams {
  Rows rows;
  const void* weights;
  uint64_t* at;       // distances, as words that sort like the distances
  uint32_t* queued;   // last round in which each vertex was in the list
  Level* level;
  Frontier now;
  Frontier next;
  uint64_t* empty;  // size of the previous round's list, which path_relax sets to 0
  uint64_t* result;
  uint64_t far;     // distance of vertices without a path
  double step;      // increment of the threshold
  double scale;     // factor of weights in path_mean
  uint32_t weight;  // type of the weights
  uint32_t floats;  // not 0: distances are floats
  uint32_t round;
  uint32_t source;
};

__device__ __forceinline__ double real(uint64_t word) {
  double d;
  asm("mov.b64 %0, %1;" : "=d"(d) : "l"(word));
  return d;
}
__device__ __forceinline__ uint64_t word(double d) {
  uint64_t w;
  asm("mov.b64 %0, %1;" : "=l"(w) : "d"(d));
  return w;
}

// weight_of returns the weight of an arc as a float.
__device__ __forceinline__ double weight_of(const PathParams& p, uint64_t arc) {
  switch (p.weight) {
    case kUint32: return double(static_cast<const uint32_t*>(p.weights)[arc]);
    case kUint64: return double(static_cast<const uint64_t*>(p.weights)[arc]);
    case kInt32: return double(static_cast<const int32_t*>(p.weights)[arc]);
    case kInt64: return double(static_cast<const int64_t*>(p.weights)[arc]);
    case kFloat32: return double(static_cast<const float*>(p.weights)[arc]);
    default: return static_cast<const double*>(p.weights)[arc];
  }
}

// longer returns a distance plus the weight of an arc. Integer weights are not negative.
__device__ __forceinline__ uint64_t longer(const PathParams& p, uint64_t d, uint64_t arc) {
  if (p.floats) return word(real(d) + weight_of(p, arc));
  return d + (p.weight == kUint32 || p.weight == kInt32 ? static_cast<const uint32_t*>(p.weights)[arc] : static_cast<const uint64_t*>(p.weights)[arc]);
}

__device__ __forceinline__ double value(const PathParams& p, uint64_t d) { return p.floats ? real(d) : double(d); }

// path_check finds the first weight that is negative or NaN, and the largest weight.
__device__ __forceinline__ void path_check(const PathParams& p) {
  uint64_t bad = kNotComputed, largest = 0;
  for (uint64_t i = thread_index(); i < p.rows.arcs; i += threads_in_grid()) {
    const double w = weight_of(p, i);
    if (!(w >= 0)) {
      if (i < bad) bad = i;
    } else if (const uint64_t x = word(w + 0.0); x > largest) {  // -0 is 0
      largest = x;
    }
  }
  least_of(p.result, bad);
  least_of(p.result + 1, ~largest);
}

// path_mean scales the weights to integers of at most 2^20 and adds them up. A sum of integers is
// the same in any order.
__device__ __forceinline__ void path_mean(const PathParams& p) {
  uint64_t sum = 0;
  for (uint64_t i = thread_index(); i < p.rows.arcs; i += threads_in_grid()) {
    const double part = weight_of(p, i) * p.scale;
    sum += part < 1048576 ? uint64_t(part) : 1048576;
  }
  add_warp_sum(p.result, sum);
}

__device__ __forceinline__ void path_start(const PathParams& p) {
  for (uint64_t v = thread_index(); v < p.rows.vertices; v += threads_in_grid()) {
    p.at[v] = v == p.source ? 0 : p.far;
    p.queued[v] = kNone;
  }
  if (thread_index() != 0) return;
  p.now.list[0] = p.source;
  p.now.starts[0] = 0;
  *p.level = {{one(degree(p.rows, p.source)), 0, 0}, kNotComputed, 0, p.step};
}

// path_relax relaxes the arcs of the listed vertices, which have distances below the threshold. It
// lists the vertices that get smaller distances below the threshold.
__device__ __forceinline__ void path_relax(const PathParams& p) {
  if (thread_index() == 0) *p.empty = 0, p.level->least = kNotComputed;
  const double threshold = p.level->threshold;
  for_each_arc(p.rows, p.now, 0, [&](bool there, uint32_t v, uint64_t arc) {
    uint32_t u = 0;
    bool nearer = false;
    if (there) {
      u = p.rows.targets[arc];
      const uint64_t d = longer(p, load_relaxed(p.at + v), arc);
      if (d < load_relaxed(p.at + u)) {
        min_relaxed(p.at + u, d);
        nearer = value(p, d) < threshold && exchange_relaxed(p.queued + u, p.round) != p.round;
      }
    }
    append(p.next, nearer, u, nearer ? degree(p.rows, u) : 0);
  });
}

// path_least finds the smallest distance at or above the threshold. It does nothing while vertices
// with distances below the threshold are left.
__device__ __forceinline__ void path_least(const PathParams& p) {
  if (*p.now.size != 0) return;
  const double threshold = p.level->threshold;
  uint64_t least = kNotComputed;
  for (uint64_t v = thread_index(); v < p.rows.vertices; v += threads_in_grid()) {
    const uint64_t d = p.at[v];
    if (d < p.far && d < least && value(p, d) >= threshold) least = d;
  }
  least_of(&p.level->least, least);
}

// path_gather raises the threshold, and lists the vertices with distances that are now below it.
__device__ __forceinline__ void path_gather(const PathParams& p) {
  const uint64_t least = p.level->least;
  if (least == kNotComputed) return;
  const double from = value(p, least);
  double threshold = from + p.step;
  if (!(threshold > from)) threshold = real(word(from) + 1);
  for (uint64_t base = warp_index() * kWarp; base < p.rows.vertices; base += warps_in_grid() * kWarp) {
    const uint64_t v = base + lane_index();
    const uint64_t d = v < p.rows.vertices ? p.at[v] : kNotComputed;
    const bool has = d < p.far && d >= least && value(p, d) < threshold;
    append(p.now, has, uint32_t(v), has ? degree(p.rows, uint32_t(v)) : 0);
  }
  if (thread_index() == 0) p.level->threshold = threshold;
}

__device__ __forceinline__ void path_count(const PathParams& p) {
  uint64_t reached = 0;
  for (uint64_t v = thread_index(); v < p.rows.vertices; v += threads_in_grid()) reached += p.at[v] != p.far;
  add_warp_sum(p.result, reached);
}

// ---- cores -----------------------------------------------------------------

struct CoreParams {
  Rows rows;
  uint32_t* degrees;  // degree of each remaining vertex, or core number of each removed vertex
  Level* level;
  Frontier now;
  Frontier next;
  uint64_t* empty;
  uint64_t all;  // not 0: core_start lists all vertices
};

__device__ __forceinline__ void core_start(const CoreParams& p) {
  for (uint64_t base = warp_index() * kWarp; base < p.rows.vertices; base += warps_in_grid() * kWarp) {
    const uint64_t v = base + lane_index();
    const bool there = v < p.rows.vertices;
    const uint64_t arcs = there ? degree(p.rows, uint32_t(v)) : 0;
    if (there) p.degrees[v] = uint32_t(arcs);
    if (p.all) append(p.now, there, uint32_t(v), arcs);
  }
}

// core_loops subtracts self loops from degrees.
__device__ __forceinline__ void core_loops(const CoreParams& p) {
  for_each_arc(p.rows, p.now, 0, [&](bool there, uint32_t v, uint64_t arc) {
    if (there && p.rows.targets[arc] == v) add_relaxed(p.degrees + v, ~0u);
  });
}

// core_peel removes the listed vertices, which have core number k. It lists the vertices with
// degrees that fall to k by these removals.
__device__ __forceinline__ void core_peel(const CoreParams& p) {
  if (thread_index() == 0) *p.empty = 0, p.level->least = kNotComputed;
  const uint32_t k = uint32_t(p.level->above) - 1;
  for_each_arc(p.rows, p.now, 0, [&](bool there, uint32_t v, uint64_t arc) {
    uint32_t u = 0;
    bool fallen = false;
    if (there) {
      u = p.rows.targets[arc];
      if (u != v && load_relaxed(p.degrees + u) > k) {
        const uint32_t before = add_relaxed(p.degrees + u, ~0u);
        // another thread was first: restore the degree
        if (before <= k) add_relaxed(p.degrees + u, 1u);
        fallen = before == k + 1;
      }
    }
    append(p.next, fallen, u, fallen ? degree(p.rows, u) : 0);
  });
}

// core_least finds the smallest remaining degree. It does nothing while the list is not empty.
__device__ __forceinline__ void core_least(const CoreParams& p) {
  if (*p.now.size != 0) return;
  const uint64_t above = p.level->above;
  uint64_t least = kNotComputed;
  for (uint64_t v = thread_index(); v < p.rows.vertices; v += threads_in_grid()) {
    const uint64_t d = p.degrees[v];
    if (d >= above && d < least) least = d;
  }
  least_of(&p.level->least, least);
}

// core_gather lists the vertices with the degree that core_least has found.
__device__ __forceinline__ void core_gather(const CoreParams& p) {
  const uint64_t least = p.level->least;
  if (least == kNotComputed) return;
  for (uint64_t base = warp_index() * kWarp; base < p.rows.vertices; base += warps_in_grid() * kWarp) {
    const uint64_t v = base + lane_index();
    const bool has = v < p.rows.vertices && p.degrees[v] == least;
    append(p.now, has, uint32_t(v), has ? degree(p.rows, uint32_t(v)) : 0);
  }
  if (thread_index() == 0) p.level->above = least + 1;
}

}  // namespace weft::traversal
