// Kernels for columns of edges. They do not access a graph. They split a mixed batch into
// insertions and deletions, and turn sorted arcs into rows. graph_columns.go and graph_csr_gpu.go
// explain the launches.
#pragma once

#include "tuning.cuh"
#include "weft/change.cuh"
#include "weft/graph_table.cuh"

namespace weft::slab {

// Told holds the numbers of a mixed batch that the host reads.
struct Told {
  uint32_t bad;      // complement of the first insertion with a vertex out of range; 0: none
  uint32_t inserts;  // number of edges to insert
  uint32_t deletes;  // number of edges to delete
  uint32_t unused;
};

// MixedParams describes a mixed batch, sorted by edge. Only the last operation on each edge runs.
// Its outcome determines the outcomes of the earlier operations on that edge.
struct MixedParams {
  const uint8_t* kinds;
  const uint32_t* from;
  const uint32_t* to;
  const uint32_t* vals;   // may be null
  // Edges of the operations, before and after the sort. none(): the operation has no effect.
  uint64_t* keys;
  const uint32_t* order;  // operations in sorted order
  uint32_t* places;       // places of the last operations among the operations that run
  uint32_t* run_from;     // n rows: insertions from the front, deletions from the end
  uint32_t* run_to;
  uint32_t* run_vals;
  const uint8_t* changed;  // outcomes of these rows
  uint8_t* done;           // outcomes of all operations; may be null
  uint64_t* count;         // the kernel adds the number of operations with an effect
  Told* told;
  uint32_t n;
  uint32_t most;  // exclusive limit of vertices: less than 1 << bits
  uint32_t bits;  // bits of a vertex in a key
  uint32_t both;  // 1: u to v and v to u are one edge

  __device__ __forceinline__ uint64_t none() const { return ~uint64_t(0) >> (64 - 2 * bits); }
  __device__ __forceinline__ bool inserts(uint32_t op) const { return kinds[op] == kPut; }
};

// mixed_keys computes the edge of each operation.
__device__ __forceinline__ void mixed_keys(const MixedParams& p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint32_t u = p.from[i], v = p.to[i], low = u < v ? u : v, high = u < v ? v : u;
    const bool beyond = high >= p.most;  // no such edge exists, so a deletion has no effect
    if (beyond && p.inserts(uint32_t(i))) max_relaxed(&p.told->bad, ~uint32_t(i));
    const uint64_t key = p.both ? uint64_t(low) << p.bits | high : uint64_t(u) << p.bits | v;
    p.keys[i] = u == v || beyond ? p.none() : key;
  }
}

// mixed_last assigns a place among the operations that run to the last operation on each edge.
__device__ __forceinline__ void mixed_last(const MixedParams& p) {
  const uint32_t lane = lane_index();
  for (uint64_t i = thread_index(); i - lane < p.n; i += threads_in_grid()) {
    const uint64_t key = i < p.n ? p.keys[i] : p.none();
    const bool last = key != p.none() && (i + 1 == p.n || p.keys[i + 1] != key);
    const uint32_t op = last ? p.order[i] : 0;
    const bool inserts = last && p.inserts(op);
    const uint32_t ins = ballot(kAll, inserts), dels = ballot(kAll, last && !inserts);
    uint32_t at = 0;
    if (lane == 0 && ins != 0) at = add_relaxed(&p.told->inserts, popcount(ins));
    if (lane == 1 && dels != 0) at = add_relaxed(&p.told->deletes, popcount(dels));
    at = shuffle(kAll, at, inserts ? 0 : 1) + popcount((inserts ? ins : dels) & ((1u << lane) - 1));
    if (!last) continue;
    if (!inserts) at = p.n - 1 - at;
    p.places[i] = at;
    p.run_from[at] = p.from[op];
    p.run_to[at] = p.to[op];
    if (inserts && p.vals != nullptr) p.run_vals[at] = p.vals[op];
  }
}

// mixed_outcomes determines which operations had an effect. The previous operation on an edge
// determines whether the edge existed. For the first operation on an edge, the outcome of the
// operation that ran determines it.
__device__ __forceinline__ void mixed_outcomes(const MixedParams& p) {
  int32_t count = 0;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint64_t key = p.keys[i];
    const uint32_t op = p.order[i];
    bool did = false;
    if (key != p.none()) {
      bool there;
      if (i > 0 && p.keys[i - 1] == key) {
        there = p.inserts(p.order[i - 1]);
      } else {
        const uint32_t last = graph::lower_bound(p.keys, p.n, key + 1) - 1;
        there = p.inserts(p.order[last]) == (p.changed[p.places[last]] == 0);
      }
      did = p.inserts(op) != there;
    }
    if (p.done != nullptr) p.done[op] = did;
    count += did;
  }
  sync_warp();
  count_all(p.count, count);
}

// TargetsParams has arcs, and the column for their targets.
struct TargetsParams {
  const uint64_t* arcs;
  uint32_t* to;
  uint64_t n;
};

__device__ __forceinline__ void targets(const TargetsParams& p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) p.to[i] = uint32_t(p.arcs[i]);
}

}  // namespace weft::slab
