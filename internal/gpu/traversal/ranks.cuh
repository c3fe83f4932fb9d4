// PageRank in fixed point. A vertex pushes equal shares of its rank along its arcs. The kernels add
// up the shares that reach each vertex, and compute ranks from the sums.
#pragma once

#include "rows.cuh"

namespace weft::traversal {

// Iteration is the result that an iteration passes to the next one.
struct Iteration {
  uint64_t idle;    // total rank of vertices without outgoing arcs, distributed to all vertices
  uint64_t change;  // sum of the changes of all ranks
};

struct RankParams {
  Rows out;
  Rows into;               // equal to out if the graph is undirected
  const uint32_t* firsts;  // row of the first arc in each tile of into, and then the last row
  uint64_t* ranks;
  uint64_t* shares;  // share that each vertex pushes to each of its neighbors
  uint64_t* sums;    // sum of the shares that each vertex receives; 0 between iterations
  const Iteration* before;
  Iteration* now;
  uint64_t damping;  // damping factor times 2^64
  uint64_t base;     // rank of every vertex regardless of its arcs
  uint64_t limit;    // the ranks are final after an iteration with a change of at most limit
  uint64_t warm;     // not 0: ranks holds initial ranks
};

__device__ __forceinline__ bool ended(const RankParams& p) { return p.before->change <= p.limit; }

// share stores the share of a vertex. It returns the rank of a vertex without outgoing arcs, and 0
// for other vertices.
__device__ __forceinline__ uint64_t share(const RankParams& p, uint32_t v, uint64_t rank) {
  const uint64_t d = degree(p.out, v);
  p.shares[v] = d ? rank / d : 0;
  return d ? 0 : rank;
}

__device__ __forceinline__ void rank_start(const RankParams& p) {
  uint64_t idle = 0;
  for (uint64_t v = thread_index(); v < p.out.vertices; v += threads_in_grid()) {
    const uint64_t rank = p.warm ? p.ranks[v] : (uint64_t(1) << 62) / p.out.vertices;
    p.ranks[v] = rank;
    p.sums[v] = 0;
    idle += share(p, uint32_t(v), rank);
  }
  add_up_block(&p.now->idle, idle);
}

struct CutParams {
  Rows rows;
  uint32_t* firsts;
  uint64_t tiles;
};

__device__ __forceinline__ void rank_cut(const CutParams& p) {
  for (uint64_t t = thread_index(); t <= p.tiles; t += threads_in_grid()) {
    p.firsts[t] = t == p.tiles ? p.rows.vertices - 1 : last(p.rows.offsets, 0u, p.rows.vertices, t * kTile);
  }
}

// The number of consecutive arcs per lane.
constexpr uint32_t kOwn = kTile / kWarp;

// own reads the targets of the arcs of one lane. Targets are read once and shares many times, so
// the L2 cache should keep the shares.
__device__ __forceinline__ void own(const Rows& g, uint64_t at, uint32_t n, CachePolicy once, uint32_t (&ids)[kOwn]) {
  if (n == kOwn) {
#pragma unroll
    for (uint32_t i = 0; i < kOwn; i += 4) {
      const Word128 w = load_weak(reinterpret_cast<const Word128*>(g.targets + at + i), once);
      ids[i] = uint32_t(w.x);
      ids[i + 1] = uint32_t(w.x >> 32);
      ids[i + 2] = uint32_t(w.y);
      ids[i + 3] = uint32_t(w.y >> 32);
    }
  } else {
    for (uint32_t i = 0; i < kOwn; i++) ids[i] = i < n ? g.targets[at + i] : 0;
  }
}

// meet adds the last partial sum of each lane to its row, with one atomic for all lanes of a row.
__device__ __forceinline__ void meet(uint64_t* sums, uint32_t row, uint64_t sum) {
  const uint32_t lane = lane_index();
#pragma unroll
  for (uint32_t by = 1; by < kWarp; by *= 2) {
    const uint32_t other = shuffle(kAll, row, lane - by);
    const uint64_t before = shuffle(kAll, sum, lane - by);
    if (lane >= by && other == row) sum += before;
  }
  const uint32_t next = shuffle(kAll, row, lane + 1);
  if (row != kNone && (lane == kWarp - 1 || next != row)) add_relaxed(sums + row, sum);
}

// rank_gather adds up shares along arcs. A warp takes a tile of arcs, independent of row
// boundaries, and a lane takes kOwn consecutive arcs. If a lane has all arcs of a row, it stores
// the sum. Otherwise lanes add partial sums. The sums are integers, so they are the same in any
// order.
__device__ __forceinline__ void rank_gather(const RankParams& p) {
  if (ended(p)) return;
  const Rows& g = p.into;
  const CachePolicy once = evict_first();
  for (uint64_t t = warp_index(); t * kTile < g.arcs; t += warps_in_grid()) {
    const uint64_t at = t * kTile + lane_index() * kOwn;
    const uint32_t n = at >= g.arcs ? 0 : g.arcs - at < kOwn ? uint32_t(g.arcs - at) : kOwn;
    uint32_t ids[kOwn];
    uint64_t shares[kOwn];
    own(g, at, n, once, ids);
#pragma unroll
    for (uint32_t i = 0; i < kOwn; i++) shares[i] = i < n ? p.shares[ids[i]] : 0;
    uint32_t row = kNone;
    uint64_t sum = 0;
    if (n > 0) {
      const uint32_t behind = p.firsts[t + 1] + 1;
      row = last(g.offsets, p.firsts[t], behind, at);
      uint64_t end = g.offsets[row + 1];
      bool whole = g.offsets[row] == at;
#pragma unroll
      for (uint32_t i = 0; i < kOwn; i++) {
        if (i < n && at + i == end) {
          if (whole) {
            p.sums[row] = sum;
          } else {
            add_relaxed(p.sums + row, sum);
          }
          whole = true;
          sum = 0;
          row++;
          end = g.offsets[row + 1];
          if (end == at + i) {  // skip empty rows
            row = last(g.offsets, row, behind, at + i);
            end = g.offsets[row + 1];
          }
        }
        sum += shares[i];
      }
    }
    meet(p.sums, row, sum);
  }
}

// rank_apply computes ranks from sums, and the shares of the next iteration.
__device__ __forceinline__ void rank_apply(const RankParams& p) {
  if (ended(p)) return;  // the change of this iteration stays 0, so later iterations end, too
  const uint64_t everywhere = p.before->idle / p.out.vertices;
  uint64_t idle = 0, change = 0;
  for (uint64_t v = thread_index(); v < p.out.vertices; v += threads_in_grid()) {
    const uint64_t rank = p.base + uint64_t((unsigned __int128)(p.sums[v] + everywhere) * p.damping >> 64), was = p.ranks[v];
    change += rank > was ? rank - was : was - rank;
    p.ranks[v] = rank;
    p.sums[v] = 0;
    idle += share(p, uint32_t(v), rank);
  }
  add_up_block(&p.now->idle, idle);
  add_up_block(&p.now->change, change);
}

}  // namespace weft::traversal
