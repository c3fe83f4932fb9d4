// Kernels for graphs of package slab, in addition to the kernels of all tables. Batches of edges
// become arcs, vertices get base slabs, their tables move, and rows are read. graph_gpu.go explains
// the launches.
#pragma once

#include "search.cuh"
#include "weft/shared.cuh"
#include "weft/slab_arcs.cuh"
#include "weft/sums.cuh"
#include "whole.cuh"

namespace weft::slab {

// owned reports whether a base slab belongs to a vertex. Other base slabs are empty, with one
// exception: a launch has moved tables there, and the launch of settle has failed.
__device__ __forceinline__ bool owned(const Graph& t, uint32_t bucket) { return t.owners[bucket] != kAll; }

__device__ __forceinline__ Tried* tried(const Graph& g) { return reinterpret_cast<Tried*>(g.table.counters); }
// refused reports whether a batch has a vertex out of range.
__device__ __forceinline__ bool refused(const Tried* t, uint32_t ticket) { return load_relaxed(&t->bad) >> 32 == ticket; }

// Located is a graph, and the bucket of a lane's arc in the graph.
struct Located : Graph {
  uint32_t home;

  __device__ __forceinline__ Located(const Graph& g, uint32_t home) : Graph(g), home(home) {}
};
template <class S>
__device__ __forceinline__ uint32_t locate(const Located& t, uint64_t) {
  return t.home;
}

// ---- edges -----------------------------------------------------------------

// EdgesParams has a batch of edges, and their arcs. In an undirected graph each edge has two arcs,
// and the arc from the smaller to the larger vertex comes last. A loop is kNoArc.
struct EdgesParams {
  const uint32_t* from;
  const uint32_t* to;
  const uint32_t* vals;  // may be null
  uint64_t* keys;
  uint32_t* weights;
  const uint8_t* done;   // outcomes of arcs; input of pick
  const uint8_t* again;  // outcomes of the second run of the arcs; may be null
  uint8_t* ok;          // outcomes of edges; may be null
  uint64_t* changed;    // the kernel adds the number of changed edges
  const Tried* tried;   // result of check with this ticket; may be null
  uint32_t n;
  uint32_t both;
  uint32_t most;    // exclusive limit of vertices
  uint32_t ticket;
};

// arcs computes the arcs of a batch. If check has found a vertex out of range, all arcs are kNoArc.
__device__ __forceinline__ void arcs(const EdgesParams& p) {
  const bool bad = p.tried != nullptr && refused(p.tried, p.ticket);
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint32_t u = p.from[i], v = p.to[i], low = u < v ? u : v, high = u < v ? v : u;
    const uint64_t last = i * (1 + p.both) + p.both;
    const bool none = bad || (u == v && u < p.most);  // count_batch finds a vertex out of range
    p.keys[last] = none ? kNoArc : p.both ? arc_of(low, high) : arc_of(u, v);
    if (p.both) p.keys[last - 1] = none ? kNoArc : arc_of(high, low);
    if (p.vals == nullptr) continue;
    p.weights[last] = p.vals[i];
    if (p.both) p.weights[last - 1] = p.vals[i];
  }
}

// pick sets the outcome of each edge to the outcome of its last arc, and counts the changed edges.
__device__ __forceinline__ void pick(const EdgesParams& p) {
  int32_t changed = 0;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint64_t last = i * (1 + p.both) + p.both;
    const uint8_t done = p.done[last] | (p.again ? p.again[last] : 0);
    if (p.ok) p.ok[i] = done;
    changed += done;
  }
  sync_warp();
  count_all(p.changed, changed);
}

struct FindParams {
  Graph graph;
  const uint32_t* from;
  const uint32_t* to;
  Lookup lookup;  // if from and to are null, its keys are arcs
};

template <class S, class K, class V>
__device__ __forceinline__ void find_arcs(const FindParams& p) {
  Query<S> q{0, false, 0};
  if (p.from == nullptr) {
    q = query<S, K, kLanes>(p.lookup, lane_index() % kLanes);
  } else {
    q.i = thread_index();
    q.there = q.i < p.lookup.n;
    if (q.there) q.key = arc_of(load_once(p.from + q.i), load_once(p.to + q.i));
  }
  typename S::Key value;
  const bool hit = find<S, false>(p.graph, q.there, q.key, value);
  answer<S, V>(p.lookup, q, hit, value);
}

template <class S, class K, class V>
__device__ __forceinline__ void change_arcs(const ChangeParams<Graph>& p) {
  const Graph& g = p.table;
  const Changes& c = p.changes;
  const uint32_t i = uint32_t(thread_index());
  Operation<S> op = operation<S, K, V>(c, i);
  if (op.there && op.key == kNoArc) {
    op.there = false;
    if (c.ok) store_once(c.ok + i, uint8_t(0));
  }
  const Located at(g, locate<S>(g, op.key));
  Operation<S> run = op;
  // The vertex may have no table, because the batch runs before memory is reserved.
  run.there = op.there && at.home != g.table.buckets;
  change<S, false>(at, c.flags | (c.kind == kPut ? uint32_t(kKeysFixed) : 0), run);
  op.outcome = op.there && !run.there && c.kind != kDelete ? kFull : run.outcome, op.value = run.value;
  outcome<S, V>(c, i, op);
  list(c, i, op, contends(op));
  tally_block(g.table.counters, op.outcome);
  count_arcs(g, op);
}

// change_winner runs the last of the contending insertions of an arc. Perhaps none of them found a
// slab, but this run finds a slot in the slab of another operation. Then it counts as the insertion
// of the arc.
template <class S, class K>
__device__ __forceinline__ void change_winner(const WinnersParams<Graph>& p, Operation<S>& op) {
  op.there &= locate<S>(p.table, op.key) != p.table.table.buckets;
  change_one<S>(p.table, op);
  if (p.winners.ok && inserted(op.outcome))
    store_relaxed(p.winners.ok + load_relaxed(winners_of<K>(p.winners.contest).find(op.key)) - 1, 1);
  count_arcs(p.table, op);
}

// ---- capacity --------------------------------------------------------------

struct RoomParams {
  Graph graph;
  Graph to;  // the new graph; input of hand
  const uint64_t* keys;  // arcs; null: the batch has edges
  const uint32_t* from;
  const uint32_t* ends;
  Move* moves;
  Demand* demand;
  uint64_t n;       // number of keys, edges or moves
  uint32_t most;    // exclusive limit of vertices
  uint32_t wanted;  // arcs per base slab, in sixteenths
  uint32_t times;   // maximum multiple of wanted
  uint32_t next;    // next base slab to assign
  uint32_t both;    // each edge is two arcs
  uint32_t sweep;   // 1: visit all vertices, which are no more than the arcs
};

__device__ __forceinline__ uint32_t slabs_for(const RoomParams& p, uint32_t degree) {
  return uint32_t((uint64_t(degree) * 16 + p.wanted - 1) / p.wanted);
}

// each_arc calls f(i, arc) for each arc of a batch. i is the number of the key or the edge.
template <class F>
__device__ __forceinline__ void each_arc(const RoomParams& p, F f) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    if (p.keys != nullptr) {
      f(i, p.keys[i]);
      continue;
    }
    const uint32_t u = p.from[i], v = p.ends[i];
    if (u == v && u < p.most) continue;
    f(i, arc_of(u, v));
    if (p.both) f(i, arc_of(v, u));
  }
}

// crowds reports whether this number of arcs would make the chains of a vertex too long.
__device__ __forceinline__ bool crowds(const RoomParams& p, uint32_t slabs, uint64_t arcs) { return arcs > uint64_t(slabs) * p.times * p.wanted / 16; }
__device__ __forceinline__ void crowd(const RoomParams& p, uint32_t u) { p.moves[add_relaxed(&p.demand->crowded, 1u)].vertex = u; }

// count_batch counts the insertions per vertex. It lists the vertices with chains that would become
// too long.
__device__ __forceinline__ void count_batch(const RoomParams& p) {
  each_arc(p, [&](uint64_t i, uint64_t arc) {
    if (arc == kNoArc) return;
    const uint32_t u = source_of(arc), v = uint32_t(arc);
    if (u >= p.most || v >= p.most) {
      max_relaxed(&p.demand->bad, ~uint32_t(i));
      return;
    }
    if (u >= p.graph.n) {
      max_relaxed(&p.demand->vertices, u + 1);
      return;
    }
    Vertex& at = p.graph.vertices[u];
    if (p.sweep) {  // sweep lists the vertices
      add_relaxed(&at.coming, 1u);
      return;
    }
    const uint32_t now = add_relaxed(&at.coming, 1u) + 1;
    const uint64_t all = uint64_t(at.degree) + now;
    // The insertion that exceeds the limit lists the vertex.
    if (crowds(p, at.slabs, all) && (now == 1 || !crowds(p, at.slabs, all - 1))) crowd(p, u);
  });
}

// sweep lists the vertices with chains that would become too long, in a pass over all vertices.
__device__ __forceinline__ void sweep(const RoomParams& p) {
  for (uint64_t u = thread_index(); u < p.graph.n; u += threads_in_grid()) {
    const Vertex v = p.graph.vertices[u];
    if (v.coming != 0 && crowds(p, v.slabs, uint64_t(v.degree) + v.coming)) crowd(p, uint32_t(u));
  }
}

// forget clears the counts of insertions.
__device__ __forceinline__ void forget(const RoomParams& p) {
  if (p.sweep) {
    for (uint64_t u = thread_index(); u < p.graph.n; u += threads_in_grid()) store_relaxed(&p.graph.vertices[u].coming, 0u);
    return;
  }
  each_arc(p, [&](uint64_t, uint64_t arc) {
    if (const uint32_t u = source_of(arc); u < p.graph.n) store_relaxed(&p.graph.vertices[u].coming, 0u);
  });
}

// hand_out assigns base slabs to the lanes of a warp, with one atomic for all lanes. It returns the
// number of base slabs that were assigned before this lane's.
__device__ __forceinline__ uint64_t hand_out(const RoomParams& p, uint32_t slabs) {
  const uint64_t upto = running(uint64_t(slabs)), all = shuffle(kAll, upto, kWarp - 1);
  uint64_t before = 0;
  if (lane_index() == 0 && all != 0) before = add_relaxed(&p.demand->slabs, all);
  return shuffle(kAll, before, 0) + upto - slabs;
}

// plan assigns new base slabs to the listed vertices, after the base slabs in use.
__device__ __forceinline__ void plan(const RoomParams& p) {
  const uint32_t n = load_relaxed(&p.demand->crowded), lane = lane_index();
  uint64_t kept = 0, arcs = 0;
  for (uint64_t first = thread_index() - lane; first < n; first += threads_in_grid()) {
    const bool there = first + lane < n;
    Move m{};
    Vertex v{};
    if (there) {
      m.vertex = p.moves[first + lane].vertex;
      v = p.graph.vertices[m.vertex];
      m.slabs = slabs_for(p, v.degree + v.coming);
    }
    m.first = p.next + uint32_t(hand_out(p, m.slabs));
    if (there) p.moves[first + lane] = m;
    kept += uint64_t(m.slabs) - v.slabs, arcs += v.degree;
  }
  sync_warp();
  add_warp_sum(&p.demand->kept, kept);
  add_warp_sum(&p.demand->arcs, arcs);
}

// Moved is a graph in which one vertex has other base slabs.
struct Moved : Graph {
  uint32_t first, slabs;

  __device__ __forceinline__ Moved(const Graph& g, const Move& m) : Graph(g), first(m.first), slabs(m.slabs) {}
};
template <class S>
__device__ __forceinline__ uint32_t locate(const Moved& t, uint64_t arc) {
  return bucket_in(t.table.seed, t.first, t.slabs, uint32_t(arc));
}

// A block visits each table with at least kMany base slabs. A warp visits several smaller tables
// together.
constexpr uint32_t kMany = 64;

// each_table visits the base slabs of n tables. Table i has size(i) base slabs. A tile calls f(i,
// b, busy) for base slab b of table i. All lanes of a warp call f together. After all base slabs of
// a table, `step` threads call end(i, first, step). Each of them passes a different number `first`.
template <class Size, class F, class End>
__device__ __forceinline__ void each_table(uint64_t n, Size size, F f, End end) {
  constexpr uint32_t kTiles = kWarp / kLanes, kWarps = kBlock / kWarp;
  __shared__ uint32_t large[kBlock + 1];  // numbers of large tables, and their count
  const Shared<uint32_t> count = shared(large + kBlock), many = shared(large);
  const uint32_t lane = lane_index(), warp = thread_in_block() / kWarp;
  // A small number of tables is spread over all warps.
  const uint64_t warps = threads_in_grid() / kWarp, some = (n + warps - 1) / warps;
  const uint32_t each = some < kWarp ? uint32_t(some) : kWarp;
  for (uint64_t first = uint64_t(block_index()) * kWarps * each; first < n; first += warps * each) {
    if (thread_in_block() == 0) store_weak(count, 0u);
    sync_block();
    const uint64_t own = first + warp * each + lane;
    const bool there = lane < each && own < n;
    const uint32_t slabs = there ? size(own) : 0;
    const bool big = slabs >= kMany;
    if (big) store_weak(many + add_relaxed(count, 1u), uint32_t(own));
    const uint32_t upto = running(big ? 0 : slabs), all = shuffle(kAll, upto, kWarp - 1);
    for (uint32_t k = 0; k < all; k += kTiles) {
      const uint32_t item = k + lane / kLanes;
      uint32_t of = 0;  // the lane with the table of this item
#pragma unroll
      for (uint32_t d = kWarp / 2; d != 0; d /= 2)
        if (shuffle(kAll, upto, of + d - 1) <= item) of += d;
      const uint32_t before = shuffle(kAll, upto - slabs, of);
      f(first + warp * each + of, item - before, item < all);
    }
    sync_warp();
    if (there && !big) end(own, 0, 1);
    sync_block();
    for (uint32_t k = 0, found = load_weak(count); k < found; k++) {
      const uint64_t i = load_weak(many + k);
      const uint32_t slabs = size(i);
      for (uint32_t b = warp * kTiles; b < slabs; b += kWarps * kTiles) f(i, b + lane / kLanes, b + lane / kLanes < slabs);
      sync_block();  // all threads have read the old place
      end(i, thread_in_block(), kBlock);
    }
    sync_block();
  }
}

// move copies the arcs of the listed vertices to their new base slabs.
template <class S>
__device__ __forceinline__ void move(const RoomParams& p) {
  Resident resident;
  const uint32_t lane = lane_index();
  each_table(
      p.n, [&](uint64_t i) { return p.graph.vertices[p.moves[i].vertex].slabs; },
      [&](uint64_t i, uint32_t b, bool busy) {
        Move m{};
        if (busy) m = p.moves[i], b += p.graph.vertices[m.vertex].first;
        const Moved to(p.graph, m);
        chain_slots<S>(p.graph, lane, lane % kLanes, b, busy, [&](bool live, typename S::Word w, uint32_t) {
          Operation<S> op{live, kPut, S::key(w), S::value(w)};
          change<S, true>(to, 0, op, &resident);
          if (op.outcome == kFull) store_relaxed(&p.moves[i].lost, 1u);
        });
      },
      [](uint64_t, uint32_t, uint32_t) {});
}

// settle makes the new base slabs the tables of the vertices, and empties the old base slabs. If
// arcs of a vertex overflowed, it empties the vertex's new base slabs instead.
template <class S>
__device__ __forceinline__ void settle(const RoomParams& p) {
  const uint32_t lane = lane_index();
  uint64_t dead = 0;
  each_table(
      p.n,
      [&](uint64_t i) {
        const Move& m = p.moves[i];
        return m.lost ? m.slabs : p.graph.vertices[m.vertex].slabs;
      },
      [&](uint64_t i, uint32_t b, bool busy) {
        Move m{};
        if (busy) m = p.moves[i], b += m.lost ? m.first : p.graph.vertices[m.vertex].first;
        chain_slots<S>(p.graph, lane, lane % kLanes, b, busy && !m.lost, [&](bool, typename S::Word w, uint32_t) { dead += S::key(w) == S::kDead; });
        if (busy && lane % kLanes == 0) p.graph.owners[b] = kAll;
        trim<S>(p.graph, busy, b, busy ? p.graph.table.slab(b, kNoUnit) : nullptr, 0);
      },
      [&](uint64_t i, uint32_t first, uint32_t step) {
        const Move m = p.moves[i];
        Vertex& v = p.graph.vertices[m.vertex];
        if (m.lost) {
          if (first == 0) add_relaxed(&p.demand->lost, 1u);
          return;
        }
        for (uint32_t b = first; b < m.slabs; b += step) p.graph.owners[m.first + b] = m.vertex;
        if (first == 0) v.first = m.first, v.slabs = m.slabs;
      });
  sync_warp();
  add_warp_sum(&p.graph.table.counters->used, 0 - dead);
}

// measure adds up the numbers of base slabs that all vertices need.
__device__ __forceinline__ void measure(const RoomParams& p) {
  uint64_t slabs = 0;
  for (uint64_t u = thread_index(); u < p.graph.n; u += threads_in_grid()) {
    const Vertex v = p.graph.vertices[u];
    slabs += slabs_for(p, v.degree + v.coming);
  }
  sync_warp();
  add_warp_sum(&p.demand->slabs, slabs);
}

// hand assigns base slabs to all vertices in a new generation.
__device__ __forceinline__ void hand(const RoomParams& p) {
  const uint32_t lane = lane_index();
  for (uint64_t first = thread_index() - lane; first < p.graph.n; first += threads_in_grid()) {
    const uint64_t u = first + lane;
    Vertex v{};
    if (u < p.graph.n) v = p.graph.vertices[u], v.slabs = slabs_for(p, v.degree + v.coming);
    const uint64_t before = hand_out(p, v.slabs);
    if (u >= p.graph.n) continue;
    v.first = uint32_t(before), v.coming = 0;
    p.to.vertices[u] = v;
    for (uint32_t b = 0; b < v.slabs; b++) p.to.owners[v.first + b] = uint32_t(u);
  }
}

struct RenewParams {
  Graph from, to;
  uint32_t* lost;  // the kernel adds the number of arcs that found no slot
};

// ---- vertices --------------------------------------------------------------

// DoomedParams has vertices that lose their edges, and one bit for each number below limit. Some of
// the vertices may have no Vertex.
struct DoomedParams {
  Graph graph;
  const uint32_t* vertices;
  uint32_t* marks;    // zero before the launch of doom
  uint64_t* deleted;  // the kernel adds the number of deleted arcs
  uint32_t n;
  uint32_t limit;
  uint32_t both;  // 1: each edge is in the tables of both ends
  uint32_t unused;
};

// doom marks the vertices.
__device__ __forceinline__ void doom(const DoomedParams& p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid())
    if (const uint32_t u = p.vertices[i]; u < p.limit) or_relaxed(p.marks + u / 32, 1u << u % 32);
}
__device__ __forceinline__ bool doomed(const DoomedParams& p, uint32_t u) { return u < p.limit && (p.marks[u / 32] >> u % 32 & 1) != 0; }

// sever deletes the arcs of doomed vertices. Each tile takes a base slab. In an undirected graph,
// it also deletes the reverse arcs. The exception is the arc of another doomed vertex: the tile
// with that vertex's base slab deletes it. In a directed graph, sever searches all tables for arcs
// that lead to doomed vertices.
template <class S>
__device__ __forceinline__ void sever(const DoomedParams& p) {
  constexpr uint32_t kTiles = kWarp / kLanes;
  const Graph& g = p.graph;
  const uint32_t lane = lane_index();
  int32_t deleted = 0;
  for (uint64_t first = thread_index() / kWarp * kTiles; first < g.table.buckets; first += threads_in_grid() / kWarp * kTiles) {
    const uint32_t bucket = uint32_t(first) + lane / kLanes, u = bucket < g.table.buckets ? g.owners[bucket] : kAll;
    const bool goes = doomed(p, u);
    chain_slots<S>(g, lane, lane % kLanes, bucket, p.both ? goes : u != kAll, [&](bool live, typename S::Word w, uint32_t) {
      const uint32_t v = uint32_t(S::key(w));
      const bool other = live && doomed(p, v);
#pragma unroll 1
      for (uint32_t back = p.both; back != kAll; back--) {
        Operation<S> op{back ? live && !other : other || (live && goes), kDelete, back ? arc_of(v, u) : arc_of(u, v), 0};
        change<S, false>(g, 0, op);
        count_arcs(g, op);
        deleted += op.outcome == kDeleted;
      }
    });
  }
  sync_warp();
  count_all(p.deleted, deleted);
  count_all(&g.table.counters->live, -deleted);
}

// ---- reading ---------------------------------------------------------------

struct RowsParams {
  Graph graph;
  const uint32_t* vertices;  // null: all, in order
  uint32_t* degrees;
  const uint64_t* offsets;
  uint32_t* ids;
  uint32_t* weights;  // may be null
  uint64_t limit;     // capacity of ids
  uint32_t n;
  uint32_t unused;
};

__device__ __forceinline__ uint32_t vertex(const RowsParams& p, uint64_t i) { return p.vertices ? p.vertices[i] : uint32_t(i); }

__device__ __forceinline__ void degrees(const RowsParams& p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint32_t u = vertex(p, i);
    p.degrees[i] = u < p.graph.n ? load_relaxed(&p.graph.vertices[u].degree) : 0;
  }
}

// rows writes the neighbors of vertices, in no order. A warp takes one vertex at a time.
template <class S>
__device__ __forceinline__ void rows(const RowsParams& p) {
  constexpr uint32_t kTiles = kWarp / kLanes;
  const uint32_t lane = lane_index();
  for (uint64_t i = thread_index() / kWarp; i < p.n; i += threads_in_grid() / kWarp) {
    const uint32_t u = vertex(p, i);
    if (u >= p.graph.n) continue;
    const uint64_t handle = load_relaxed(reinterpret_cast<const uint64_t*>(p.graph.vertices + u));
    const uint32_t first = uint32_t(handle), slabs = uint32_t(handle >> 32);
    uint64_t at = p.offsets[i];
    const uint64_t end = p.offsets[i + 1] < p.limit ? p.offsets[i + 1] : p.limit;
    for (uint32_t b = 0; b < slabs; b += kTiles) {
      const uint32_t own = b + lane / kLanes;
      chain_slots<S>(p.graph, lane, lane % kLanes, first + own, own < slabs, [&](bool live, typename S::Word w, uint32_t) {
        const uint32_t votes = ballot(kAll, live);
        const uint64_t place = at + popcount(votes & ((1u << lane) - 1));
        at += popcount(votes);
        if (!live || place >= end) return;
        p.ids[place] = uint32_t(S::key(w));
        if constexpr (S::kHasValue) {
          if (p.weights) p.weights[place] = uint32_t(S::value(w));
        }
      });
    }
  }
}

}  // namespace weft::slab
