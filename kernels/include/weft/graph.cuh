// A Ref to a graph that changes, or to a snapshot of one, for users' kernels. Package graph
// documents how to get a Ref in Go. docs/refs.md is a guide.
//
//	__global__ void friends(graph::Ref<> of, …) {
//	  of.for_each(u, [&](uint32_t v) { if (of.edge_exists(v, w)) … });
//
// The graph of a Ref does not change while a launch reads it, so no access is atomic. A call may
// pass any vertex number, because an absent vertex has no neighbors. A function f receives a
// neighbor, and its weight if the graph has weights: f(v) or f(v, weight).
//
// A call without a suffix works for one lane, at any place in a kernel. Lanes may diverge or loop,
// and other lanes may have returned. kTile neighboring lanes make a call with the suffix _tile
// together, for one vertex, and share its neighbors. All threads of a launch call for_each_arc.
#pragma once

#include "graph_table.cuh"
#include "ref.cuh"

namespace weft::graph {

// Ref is passed to kernels by value. W is the Go type of the weights, or void without weights.
template <class W = void>
struct Ref {
  static constexpr uint32_t kTile = 8;
  static constexpr int kBits = 8 * As<W>::kBytes;
  using Weight = typename As<W>::Given;

  // The fields are those of Graph (graph_table.cuh). vertices is larger than the number of any
  // present vertex.
  uint32_t* records;
  uint8_t* pool;
  uint32_t* alive;
  uint32_t vertices;
  uint32_t unit;

  // there reports whether a vertex is in the graph.
  __device__ __forceinline__ bool there(uint32_t u) const { return graph::there(graph(), u); }
  // degree returns the number of neighbors of a vertex.
  __device__ __forceinline__ uint32_t degree(uint32_t u) const { return graph::degree(graph(), u); }
  // edge_exists reports whether the graph has an edge from u to v.
  __device__ __forceinline__ bool edge_exists(uint32_t u, uint32_t v) const {
    check();
    return graph::edge_exists<kBits>(graph(), u, v);
  }
  // find reports whether the graph has an edge from u to v, and stores the weight of the edge in
  // *weight. For parallel edges, it stores the weight of the newest.
  __device__ __forceinline__ bool find(uint32_t u, uint32_t v, Weight* weight) const {
    check();
    const Row<kBits> r = row<kBits>(graph(), u);
    uint32_t at;
    const bool found = find_edge(r, v, at);
    if (found) *weight = As<W>::from(r.weights[at]);
    return found;
  }

  // for_each calls f for all neighbors of a vertex, in ascending order.
  template <class F>
  __device__ __forceinline__ void for_each(uint32_t u, F f) const {
    some(u, 0, 1, f);
  }
  // for_each_tile calls f for all neighbors of a vertex. One lane of the tile calls f for each
  // neighbor.
  template <class F>
  __device__ __forceinline__ void for_each_tile(uint32_t u, F f) const {
    some(u, lane_index() % kTile, kTile, f);
  }

  // for_each_arc calls f(u, v), or f(u, v, weight), for all entries of rows. One thread of the
  // launch calls f for each entry. All lanes of all warps call for_each_arc. One warp processes a
  // whole row, even a row with several thousand neighbors.
  template <class F>
  __device__ __forceinline__ void for_each_arc(F f) const {
    check();
    const uint64_t step = threads_in_grid() / kWarp * kTogether;
    for (uint64_t first = thread_index() / kWarp * kTogether; first < vertices; first += step) {
      const uint32_t u = uint32_t(first) + lane_index();
      Row<kBits> own = {nullptr, nullptr, 0};
      if (lane_index() < kTogether && u < vertices) own = row<kBits>(graph(), u);
      const bool in_record = own.degree <= Shape<kBits>::inline_entries;
      if (in_record) entries(own, 0, own.degree, 1, [&](uint32_t v, auto... w) { f(u, v, w...); });
      const uint32_t rows = ballot(kAll, !in_record), large = ballot(kAll, own.degree > kLarge);
      shared<kTile>(rows & ~large, uint32_t(first), own, f);
      shared<kWarp>(large, uint32_t(first), own, f);
    }
  }

 private:
  // Number of vertices. A warp reads their records together.
  static constexpr uint32_t kTogether = 16;
  // A warp shares each row with more entries than this. A tile shares each smaller row, and reads
  // 128 bytes of it at a time.
  static constexpr uint32_t kLarge = 256;
  // Number of neighbors that a lane reads together.
  static constexpr uint32_t kQuad = 4;

  __device__ __forceinline__ Graph graph() const { return {records, pool, alive, vertices, unit}; }
  __device__ __forceinline__ void check() const {
    if (unit != Shape<kBits>::unit) asm volatile("trap;" ::: "memory");
  }

  // call calls f with an entry of a row.
  template <class F>
  __device__ __forceinline__ static void call(const Row<kBits>& r, uint32_t i, uint32_t v, F& f) {
    if constexpr (kBits != 0) {
      f(v, As<W>::from(r.weights[i]));
    } else {
      f(v);
    }
  }

  // entries calls f for every step-th entry of a row, from entry `from` on.
  template <class F>
  __device__ __forceinline__ static void entries(const Row<kBits>& r, uint32_t from, uint32_t to, uint32_t step, F f) {
    for (uint32_t i = from; i < to; i += step) call(r, i, r.ids[i], f);
  }

  template <class F>
  __device__ __forceinline__ void some(uint32_t u, uint32_t from, uint32_t step, F& f) const {
    check();
    const Row<kBits> r = row<kBits>(graph(), u);
    entries(r, from, r.degree, step, f);
  }

  // shared calls f for the entries of rows that lie in blocks of memory. rows is the set of lanes
  // that have these rows. Each group of Lanes lanes processes one row at a time. Blocks are aligned
  // to 32 bytes, so a lane can read four neighbors of a row together.
  template <uint32_t Lanes, class F>
  __device__ __forceinline__ static void shared(uint32_t rows, uint32_t first, const Row<kBits>& own, F& f) {
    const uint32_t rank = lane_index() % Lanes;
    while (rows != 0) {
      uint32_t mine = kWarp;  // the lane with the row that this lane shares
      for (uint32_t group = 0; group < kWarp / Lanes && rows != 0; group++, rows &= rows - 1) {
        if (group == lane_index() / Lanes) mine = lowest(rows);
      }
      const uint32_t from = mine % kWarp;
      Row<kBits> r;
      r.ids = reinterpret_cast<uint32_t*>(shuffle(kAll, reinterpret_cast<uint64_t>(own.ids), from));
      if constexpr (kBits != 0) {
        r.weights = reinterpret_cast<decltype(r.weights)>(shuffle(kAll, reinterpret_cast<uint64_t>(own.weights), from));
      }
      r.degree = shuffle(kAll, own.degree, from);
      if (mine == kWarp) continue;
      const uint32_t u = first + mine, whole = r.degree / kQuad;
      const auto give = [&](uint32_t v, auto... w) { f(u, v, w...); };
      for (uint32_t q = rank; q < whole; q += Lanes) {
        const Word128 ids = load_weak(reinterpret_cast<const Word128*>(r.ids) + q);
        call(r, kQuad * q, uint32_t(ids.x), give);
        call(r, kQuad * q + 1, uint32_t(ids.x >> 32), give);
        call(r, kQuad * q + 2, uint32_t(ids.y), give);
        call(r, kQuad * q + 3, uint32_t(ids.y >> 32), give);
      }
      entries(r, kQuad * whole + rank, r.degree, Lanes, give);
    }
  }
};

}  // namespace weft::graph
