// Kernels of package graph: graphs that change. layout.go explains the memory, and gpu_change.go
// explains the launches.
#include "weft/entry.cuh"
#include "weft/graph_sweep.cuh"

namespace weft::graph {

// ---- lookups ---------------------------------------------------------------

struct FindParams {
  Graph graph;
  const uint32_t* from;
  const uint32_t* to;
  void* weights;  // may be null, like the pointers below
  uint8_t* ok;
  uint64_t* hits;  // the kernel adds the number of edges found
  uint64_t n;
};

template <int Bits>
__device__ __forceinline__ void find(const FindParams& p) {
  using W = typename Shape<Bits>::W;
  uint64_t hits = 0;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const Row<Bits> r = row<Bits>(p.graph, p.from[i]);
    uint32_t at;
    const bool found = find_edge(r, p.to[i], at);
    if (p.ok) p.ok[i] = found;
    if constexpr (Shape<Bits>::weighted) {
      if (p.weights) static_cast<W*>(p.weights)[i] = found ? r.weights[at] : W(0);
    }
    hits += found;
  }
  if (p.hits) add_warp_sum(p.hits, hits);
}

struct RowsParams {
  Graph graph;
  const uint32_t* vertices;  // null: vertices from `first` on
  uint32_t* degrees;         // output of degrees
  const uint64_t* offsets;   // input of rows; the pointers below are its output
  uint32_t* ids;
  void* weights;  // may be null
  uint64_t limit; // capacity of ids
  uint32_t n;
  uint32_t first;
};

__device__ __forceinline__ uint32_t vertex(const RowsParams& p, uint64_t i) { return p.vertices ? p.vertices[i] : p.first + uint32_t(i); }

__device__ __forceinline__ void degrees(const RowsParams& p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) p.degrees[i] = degree(p.graph, vertex(p, i));
}

template <int Bits>
__device__ __forceinline__ void rows(const RowsParams& p) {
  using W = typename Shape<Bits>::W;
  for_each_element(p.offsets, p.n, [&](uint32_t of, uint64_t i) {
    const Row<Bits> r = row<Bits>(p.graph, vertex(p, of));
    const uint64_t at = p.offsets[of] + i;
    if (i >= r.degree || at >= p.limit) return;
    p.ids[at] = r.ids[i];
    if constexpr (Shape<Bits>::weighted) {
      if (p.weights) static_cast<W*>(p.weights)[at] = r.weights[i];
    }
  });
}

// ---- vertices --------------------------------------------------------------

struct MarkParams {
  Graph graph;
  const uint32_t* vertices;
  uint32_t* doomed;   // one bit per vertex to delete; null: mark vertices as present
  uint64_t* count;    // the kernel adds the number of newly marked vertices
  uint64_t n;
};

// mark marks vertices as present, or marks present vertices for deletion.
__device__ __forceinline__ void mark(const MarkParams& p) {
  uint64_t count = 0;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint32_t u = p.vertices[i];
    if (!p.doomed) {
      count += mark_present(p.graph, u);
    } else if (there(p.graph, u)) {
      const uint32_t bit = 1u << u % 32;
      count += !(or_relaxed(p.doomed + u / 32, bit) & bit);
    }
  }
  add_warp_sum(p.count, count);
}

struct DoomedParams {
  Graph graph;
  uint32_t* doomed;
  uint32_t* counts;         // output of the first launch
  const uint64_t* offsets;  // input of the second launch
  uint64_t* keys;
  uint64_t* present;
  Bins bins;
  uint32_t bits;
  uint32_t unused;
};

// empty returns the key of the arc that removes all arcs of a vertex.
__device__ __forceinline__ uint64_t empty(const DoomedParams& p, uint32_t u) { return uint64_t(u) << p.bits | ((uint64_t(1) << p.bits) - 1); }

// doomed writes the arcs for a deletion of vertices from an undirected graph. For each deleted
// vertex, it writes an arc from each neighbor that stays, and one arc that removes all arcs of the
// vertex. Without keys, it only counts the arcs. Neighbors that are deleted count, too: they have
// arcs without a place in rows.
template <int Bits>
__device__ __forceinline__ void doomed(const DoomedParams& p) {
  if (!p.keys) {
    for (uint64_t u = thread_index(); u < p.graph.vertices; u += threads_in_grid()) p.counts[u] = goes(p.doomed, uint32_t(u)) ? 1 + degree(p.graph, uint32_t(u)) : 0;
    return;
  }
  for_each_element(p.offsets, p.graph.vertices, [&](uint32_t u, uint64_t i) {
    const Row<Bits> r = row<Bits>(p.graph, u);
    const uint32_t v = i < r.degree ? r.ids[i] : u;
    const bool drops = i != r.degree && goes(p.doomed, v);
    if (drops && p.bins.counts) return;  // an arc without a place in rows is not needed
    put_arc(p.keys, p.bins, p.offsets[u] + i, i == r.degree ? empty(p, u) : drops ? dropped(p.bits) : uint64_t(v) << p.bits | u);
  });
}

// bury removes the doomed vertices, and subtracts their number from `present`.
__device__ __forceinline__ void bury(const DoomedParams& p) {
  uint64_t gone = 0;
  for (uint64_t i = thread_index(); i < (uint64_t(p.graph.vertices) + 31) / 32; i += threads_in_grid()) {
    gone += popcount(p.graph.alive[i] & p.doomed[i]);
    p.graph.alive[i] &= ~p.doomed[i];
  }
  add_warp_sum(p.present, 0 - gone);
}

// ---- compaction ------------------------------------------------------------

struct CompactParams {
  Graph from;
  Graph to;
  uint32_t* groups;   // class of each vertex's block; kNoBlock if none
  uint32_t* degrees;  // degree of each row in a block, else 0
  const uint64_t* offsets;
  const uint32_t* blocks;
  uint32_t epoch;
  uint32_t unused;
};

__device__ __forceinline__ void measure(const CompactParams& p) {
  for (uint64_t u = thread_index(); u < p.from.vertices; u += threads_in_grid()) {
    const uint32_t* record = record_of(p.from, uint32_t(u));
    p.groups[u] = record[kClass] != 0 ? record[kClass] : kNoBlock;
    p.degrees[u] = record[kClass] != 0 ? record[kDegree] : 0;
  }
}

__device__ __forceinline__ void lead(const CompactParams& p) {
  for (uint64_t u = thread_index(); u < p.from.vertices; u += threads_in_grid()) {
    const uint32_t* record = record_of(p.from, uint32_t(u));
    Word128 head = load_weak(reinterpret_cast<const Word128*>(record));
    // A record with a block contains no neighbors.
    if (record[kClass] != 0) head.y = p.blocks[u] | uint64_t(p.epoch) << 32;
    Word128* to = reinterpret_cast<Word128*>(record_of(p.to, uint32_t(u)));
    to[0] = head;
    to[1] = load_weak(reinterpret_cast<const Word128*>(record) + 1);
  }
}

template <int Bits>
__device__ __forceinline__ void relocate(const CompactParams& p) {
  for_each_element(p.offsets, p.from.vertices, [&](uint32_t u, uint64_t i) {
    const Row<Bits> old = row<Bits>(p.from, u), to = row<Bits>(p.to, u);
    to.ids[i] = old.ids[i];
    if constexpr (Shape<Bits>::weighted) to.weights[i] = old.weights[i];
  });
}

}  // namespace weft::graph

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::graph;
constexpr int kBits = WEFT_VALUE_BITS;

WEFT_KERNEL(graph_find, 4)(FindParams p) { weft::graph::find<kBits>(p); }
WEFT_KERNEL(graph_degrees, 4)(RowsParams p) { degrees(p); }
WEFT_KERNEL(graph_rows, 4)(RowsParams p) { rows<kBits>(p); }
WEFT_KERNEL(graph_arcs, 8)(ArcsParams p) { arcs(p); }
WEFT_KERNEL(graph_tally, 4)(TallyParams p) { tally(p); }
WEFT_KERNEL(graph_settle, 4)(SettleParams p) { weft::graph::settle<kBits>(p); }
WEFT_KERNEL(graph_plan, 4)(PlanParams p) { plan<kBits>(p); }
WEFT_KERNEL(graph_few, 4)(FewParams p) { few<kBits>(p); }
WEFT_KERNEL(graph_place, 4)(PlaceParams p) { place(p); }
WEFT_KERNEL(graph_place_few, 4)(PlaceFewParams p) { place_few(p); }
WEFT_KERNEL(graph_write_few, 5)(WriteFewParams p) { write_few<kBits>(p); }
WEFT_KERNEL(graph_write_chunks, 4)(WriteFewParams p) { write_chunks<kBits>(p); }
WEFT_KERNEL(graph_write, 4)(WriteParams p) { weft::graph::write<kBits>(p); }
WEFT_KERNEL(graph_commit, 4)(WriteParams p) { commit<kBits>(p); }
WEFT_KERNEL(graph_mark, 4)(MarkParams p) { mark(p); }
WEFT_KERNEL(graph_doomed, 4)(DoomedParams p) { doomed<kBits>(p); }
WEFT_KERNEL(graph_bury, 4)(DoomedParams p) { weft::graph::bury(p); }
WEFT_KERNEL(graph_sweep, 4)(SweepParams p) { weft::graph::sweep<kBits>(p); }
WEFT_KERNEL(graph_sweep_write, 4)(WriteFewParams p) { sweep_write<kBits>(p); }
WEFT_KERNEL(graph_measure, 4)(CompactParams p) { measure(p); }
WEFT_KERNEL(graph_lead, 4)(CompactParams p) { lead(p); }
WEFT_KERNEL(graph_relocate, 4)(CompactParams p) { relocate<kBits>(p); }
