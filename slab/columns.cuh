// Kernels on columns of edges, which do not touch a graph: mixed batches become one of insertions and one of deletions, and arcs in
// order become rows. graphmixedgpu.go and graphcsrgpu.go explain the launches.
#pragma once

#include "tuning.cuh"
#include "weft/change.cuh"
#include "weft/graph_table.cuh"

namespace weft::slab {

// Told is what the host reads of a mixed batch.
struct Told {
  uint32_t bad;      // ~ the first insertion with a vertex that cannot be; 0: there is none
  uint32_t inserts;  // edges that the batch leaves in
  uint32_t deletes;  // and out
  uint32_t unused;
};

// A mixed batch, in the order of its edges: of each edge the last operation is run, and what that finds tells what those before it found.
struct MixedParams {
  const uint8_t* kinds;
  const uint32_t* from;
  const uint32_t* to;
  const uint32_t* vals;   // null: none
  uint64_t* keys;         // edges of the operations, then in order; ~0 shifted right for what does nothing
  const uint32_t* order;  // operations in that order
  uint32_t* places;       // of those that are last, among those that are run
  uint32_t* run_from;     // which are as many rows as there are operations: insertions from the front on, deletions from the end on
  uint32_t* run_to;
  uint32_t* run_vals;
  const uint8_t* changed;  // what these found
  uint8_t* done;           // of all operations; may be null
  uint64_t* count;         // of those that did something; added to
  Told* told;
  uint32_t n;
  uint32_t most;  // vertices that may be: less than 1 << bits
  uint32_t bits;  // of a vertex in a key
  uint32_t both;  // u to v and v to u are one edge

  __device__ __forceinline__ uint64_t none() const { return ~uint64_t(0) >> (64 - 2 * bits); }
  __device__ __forceinline__ bool inserts(uint32_t op) const { return kinds[op] == kPut; }
};

// mixed_keys names the edges of a batch.
__device__ __forceinline__ void mixed_keys(const MixedParams& p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint32_t u = p.from[i], v = p.to[i], low = u < v ? u : v, high = u < v ? v : u;
    const bool beyond = high >= p.most;  // such an edge is not there to be deleted
    if (beyond && p.inserts(uint32_t(i))) max_relaxed(&p.told->bad, ~uint32_t(i));
    const uint64_t key = p.both ? uint64_t(low) << p.bits | high : uint64_t(u) << p.bits | v;
    p.keys[i] = u == v || beyond ? p.none() : key;
  }
}

// mixed_last gives the last operation of each edge its place among those that are run.
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

// mixed_outcomes tells of each operation whether it did something: an edge is there before it if the operation before it on that edge has
// inserted it, and before the first one if the one that has been run found it.
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

// Targets are where arcs lead.
struct TargetsParams {
  const uint64_t* arcs;
  uint32_t* to;
  uint64_t n;
};

__device__ __forceinline__ void targets(const TargetsParams& p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) p.to[i] = uint32_t(p.arcs[i]);
}

}  // namespace weft::slab
