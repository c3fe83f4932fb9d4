// The update of ranks after each batch of changes to a graph. The passes are those of algo.Ranking.
// A vertex pushes its rank in equal shares to its neighbors. The part of its rank that it has not
// pushed yet is its residual.
#pragma once

#include "batches.cuh"
#include "tally.cuh"
#include "weft/graph_table.cuh"

namespace weft::traversal {

// Marks of vertices.
constexpr uint32_t kChanged = 1;  // the vertex is in list changed
constexpr uint32_t kActive = 2;   // the vertex is in list active
constexpr uint32_t kTouched = 4;  // the vertex is an end of an edge in the batch

// Kept is the state of the ranks: arrays with an element per vertex, lists of vertices, and totals.
struct Kept {
  uint64_t* ranks;
  uint64_t* handed;  // share that each vertex has pushed to each of its neighbors
  uint64_t* sums;    // sum of the shares pushed to each vertex
  uint64_t* next;    // share that each vertex would push next, or the change that it pushes now
  uint32_t* degrees;
  uint32_t* marks;
  uint32_t* changed;  // vertices with a changed sum
  uint32_t* active;   // vertices that must push
  Frontier front;     // active vertices that push now, or the ends of the edges in a batch
  Tally* tally;
  uint64_t damping;  // damping factor times 2^64
  uint64_t base;     // rank of every vertex regardless of its arcs
  uint64_t limit;    // maximum residual of a vertex that need not push
  uint64_t spread;   // rank of vertices without neighbors, as far as it has been pushed
  uint32_t vertices;
  uint32_t directed;
};

struct FollowParams {
  Kept kept;
  graph::Graph graph;
  Rows rows;        // rows of the same graph
  Batch batch;
  uint32_t deleted; // not 0: the edges of the batch were deleted
  uint32_t all;     // not 0: all vertices get new ranks, not only those in changed
};

// list appends the vertices of the lanes with has = true. The whole warp must call it.
__device__ __forceinline__ void list(uint32_t* to, uint64_t* size, bool has, uint32_t v) {
  const uint32_t lanes = ballot(kAll, has);
  if (lanes == 0) return;
  uint64_t base = 0;
  if (lane_index() == 0) base = add_relaxed(size, uint64_t(popcount(lanes)));
  base = shuffle(kAll, base, 0);
  if (has) to[base + popcount(lanes & ((1u << lane_index()) - 1))] = v;
}

// mark sets a mark of a vertex. It reports whether the mark was not set before.
__device__ __forceinline__ bool mark(const Kept& k, uint32_t v, uint32_t as) {
  return !(load_relaxed(k.marks + v) & as) && !(or_relaxed(k.marks + v, as) & as);
}

__device__ __forceinline__ uint64_t apart(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

// waits returns the residual of a vertex: the part of its rank that it has not pushed, or has
// pushed in excess.
__device__ __forceinline__ uint64_t waits(const Kept& k, uint32_t v, uint64_t share) {
  const uint64_t d = k.degrees[v];
  return d ? apart(share, k.handed[v]) * d : 0;
}

// share returns the share of its rank that a vertex pushes to each of its neighbors.
__device__ __forceinline__ uint64_t share(const Kept& k, uint32_t v) {
  const uint64_t d = k.degrees[v];
  return d ? k.ranks[v] / d : 0;
}

__device__ __forceinline__ void wrong(const Kept& k, uint32_t v) { min_relaxed(&k.tally->wrong, uint64_t(v)); }

// ---- passes over all vertices ----------------------------------------------

// follow_begin reads degrees, and assigns the same rank to all vertices.
__device__ __forceinline__ void follow_begin(const FollowParams& p) {
  for (uint64_t v = thread_index(); v < p.kept.vertices; v += threads_in_grid()) {
    p.kept.degrees[v] = uint32_t(degree(p.rows, uint32_t(v)));
    p.kept.ranks[v] = (uint64_t(1) << 62) / p.kept.vertices;
  }
}

// follow_agrees checks that the rows have the recorded degrees, and that arcs lead only to existing
// vertices. If the last vertices have no arcs, the graph may have fewer rows than vertices.
__device__ __forceinline__ void follow_agrees(const FollowParams& p) {
  const Kept& k = p.kept;
  for (uint64_t v = thread_index(); v < k.vertices; v += threads_in_grid()) {
    const uint64_t d = v < p.rows.vertices ? degree(p.rows, uint32_t(v)) : 0;
    if (d != k.degrees[v]) wrong(k, uint32_t(v));
  }
  if (p.rows.vertices <= k.vertices) return;
  for (uint64_t i = thread_index(); i < p.rows.arcs; i += threads_in_grid()) {
    if (p.rows.targets[i] >= k.vertices) wrong(k, p.rows.targets[i]);
  }
}

// follow_share stores the current share of each vertex as pushed.
__device__ __forceinline__ void follow_share(const FollowParams& p) {
  const Kept& k = p.kept;
  uint64_t idle = 0;
  for (uint64_t v = thread_index(); v < k.vertices; v += threads_in_grid()) {
    k.handed[v] = share(k, uint32_t(v));
    idle += k.degrees[v] ? 0 : k.ranks[v];
  }
  add_warp_sum(&k.tally->idle, idle);
}

// rank_of returns the rank of a vertex from its sum.
__device__ __forceinline__ uint64_t rank_of(const Kept& k, uint32_t v, uint64_t everywhere) {
  return k.base + uint64_t((unsigned __int128)(k.sums[v] + everywhere) * k.damping >> 64);
}

// follow_sweep computes ranks from sums, and the shares that vertices would push next.
__device__ __forceinline__ void follow_sweep(const FollowParams& p) {
  const Kept& k = p.kept;
  const uint64_t everywhere = k.spread / k.vertices;
  uint64_t idle = 0, waiting = 0;
  for (uint64_t v = thread_index(); v < k.vertices; v += threads_in_grid()) {
    const uint64_t rank = rank_of(k, uint32_t(v), everywhere);
    k.ranks[v] = rank;
    const uint64_t next = share(k, uint32_t(v));
    k.next[v] = next;
    waiting += waits(k, uint32_t(v), next);
    idle += k.degrees[v] ? 0 : rank;
  }
  add_warp_sum(&k.tally->idle, idle);
  add_warp_sum(&k.tally->waiting, waiting);
}

// follow_list lists the vertices that must push.
__device__ __forceinline__ void follow_list(const FollowParams& p) {
  const Kept& k = p.kept;
  uint64_t load = 0;
  for (uint64_t base = warp_index() * kWarp; base < k.vertices; base += warps_in_grid() * kWarp) {
    const uint64_t v = base + lane_index();
    bool has = false;
    if (v < k.vertices) {
      has = waits(k, uint32_t(v), share(k, uint32_t(v))) > k.limit;
      k.marks[v] = has ? kActive : 0;
      load += has ? k.degrees[v] : 0;
    }
    list(k.active, &k.tally->active, has, uint32_t(v));
  }
  add_warp_sum(&k.tally->load, load);
}

// ---- updates for a batch ---------------------------------------------------

// follow_touch lists the ends of the edges in a batch, and subtracts their contributions from the
// totals over all vertices.
__device__ __forceinline__ void follow_touch(const FollowParams& p) {
  const Kept& k = p.kept;
  uint64_t idle = 0, waiting = 0, arcs = 0;
  for (uint64_t base = warp_index() * kWarp; base < p.batch.n; base += warps_in_grid() * kWarp) {
    const uint64_t i = base + lane_index();
    const bool counts = i < p.batch.n && (p.batch.done == nullptr || p.batch.done[i] != 0);
    for (uint32_t end = 0; end < 2; end++) {
      const uint32_t v = counts ? (end ? p.batch.to : p.batch.from)[i] : 0;
      const bool first = counts && mark(k, v, kTouched);
      if (first) {
        waiting -= waits(k, v, share(k, v));
        arcs -= k.degrees[v];
        idle -= k.degrees[v] ? 0 : k.ranks[v];
      }
      list(k.front.list, &k.tally->touched, first, v);
    }
  }
  add_warp_sum(&k.tally->idle, idle);
  add_warp_sum(&k.tally->waiting, waiting);
  add_warp_sum(&k.tally->arcs, arcs);
}

// follow_edges updates degrees and sums for the arcs that were inserted or deleted.
__device__ __forceinline__ void follow_edges(const FollowParams& p) {
  const Kept& k = p.kept;
  const auto arc = [&](uint32_t u, uint32_t v) {
    add_relaxed(k.degrees + u, p.deleted ? ~0u : 1u);
    add_relaxed(k.sums + v, p.deleted ? 0 - k.handed[u] : k.handed[u]);
  };
  for_each_edge(p.batch, [&](uint32_t u, uint32_t v) {
    arc(u, v);
    if (!k.directed && u != v) arc(v, u);
  });
}

// follow_settle checks that the graph has the recorded degrees. It adds the contributions of the
// listed vertices to the totals again, and activates these vertices.
__device__ __forceinline__ void follow_settle(const FollowParams& p) {
  const Kept& k = p.kept;
  const uint64_t n = k.tally->touched;
  uint64_t idle = 0, waiting = 0, arcs = 0, load = 0;
  for (uint64_t base = warp_index() * kWarp; base < n; base += warps_in_grid() * kWarp) {
    const bool there = base + lane_index() < n;
    const uint32_t v = there ? k.front.list[base + lane_index()] : 0;
    bool activates = false, changes = false;
    if (there) {
      const uint32_t d = k.degrees[v], marks = k.marks[v];
      if (graph::degree(p.graph, v) != d) wrong(k, v);
      if (d == 0) {
        idle += k.ranks[v];
        k.handed[v] = 0;
      }
      waiting += waits(k, v, share(k, v));
      arcs += d;
      activates = !(marks & kActive);
      changes = !(marks & kChanged);
      load += activates ? d : 0;
      k.marks[v] = kActive | kChanged;
    }
    list(k.active, &k.tally->active, activates, v);
    list(k.changed, &k.tally->changed, changes, v);
  }
  add_warp_sum(&k.tally->idle, idle);
  add_warp_sum(&k.tally->waiting, waiting);
  add_warp_sum(&k.tally->arcs, arcs);
  add_warp_sum(&k.tally->load, load);
}

// ---- passes over active vertices -------------------------------------------

// follow_hand computes the changes in the shares that active vertices push.
__device__ __forceinline__ void follow_hand(const FollowParams& p) {
  const Kept& k = p.kept;
  const uint64_t n = k.tally->active;
  uint64_t waiting = 0;
  for (uint64_t base = warp_index() * kWarp; base < n; base += warps_in_grid() * kWarp) {
    const bool there = base + lane_index() < n;
    const uint32_t v = there ? k.active[base + lane_index()] : 0;
    uint64_t more = 0, d = 0;
    if (there) {
      k.marks[v] &= ~kActive;
      d = k.degrees[v];
      if (graph::degree(p.graph, v) != d) {
        wrong(k, v);
      } else if (d) {
        const uint64_t now = share(k, v);
        waiting -= waits(k, v, now);
        more = now - k.handed[v];
        k.handed[v] = now;
        k.next[v] = more;
      }
    }
    append(k.front, more != 0, v, d);
  }
  add_warp_sum(&k.tally->waiting, waiting);
}

// follow_spread adds the changes from follow_hand to the sums of the neighbors.
__device__ __forceinline__ void follow_spread(const FollowParams& p) {
  const Kept& k = p.kept;
  if (thread_index() == 0) k.tally->active = 0;
  const uint64_t size = *k.front.size;
  for_each_entry(k.front.starts, vertices_of(size), arcs_of(size), [&](bool there, uint32_t i, uint64_t at) {
    uint32_t u = 0;
    bool changes = false;
    if (there) {
      const uint32_t v = k.front.list[i];
      u = graph::ids(p.graph, v).at[at - k.front.starts[i]];
      if (u >= k.vertices) {
        wrong(k, v);
      } else {
        add_relaxed(k.sums + u, k.next[v]);
        changes = mark(k, u, kChanged);
      }
    }
    list(k.changed, &k.tally->changed, changes, u);
  });
}

// follow_refresh computes ranks from sums, and lists the vertices that must push.
__device__ __forceinline__ void follow_refresh(const FollowParams& p) {
  const Kept& k = p.kept;
  const uint64_t n = p.all ? k.vertices : k.tally->changed, everywhere = k.spread / k.vertices;
  uint64_t idle = 0, waiting = 0, load = 0;
  for (uint64_t base = warp_index() * kWarp; base < n; base += warps_in_grid() * kWarp) {
    const uint64_t i = base + lane_index();
    const uint32_t v = i >= n ? 0 : p.all ? uint32_t(i) : k.changed[i];
    bool activates = false;
    if (i < n) {
      const uint32_t marks = k.marks[v] & ~kChanged, d = k.degrees[v];
      const uint64_t before = k.ranks[v], rank = rank_of(k, v, everywhere);
      waiting -= waits(k, v, share(k, v));
      k.ranks[v] = rank;
      if (d == 0) {
        idle += rank - before;
      } else {
        const uint64_t now = waits(k, v, share(k, v));
        waiting += now;
        activates = now > k.limit && !(marks & kActive);
        load += activates ? d : 0;
      }
      k.marks[v] = activates ? marks | kActive : marks;
    }
    list(k.active, &k.tally->active, activates, v);
  }
  add_warp_sum(&k.tally->idle, idle);
  add_warp_sum(&k.tally->waiting, waiting);
  add_warp_sum(&k.tally->load, load);
}

}  // namespace weft::traversal
