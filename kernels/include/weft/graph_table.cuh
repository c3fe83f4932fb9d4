// The memory layout of a graph that changes (package graph, layout.go). A record describes each
// vertex, and blocks hold neighbors. The neighbors of a vertex are in ascending order. Nothing
// changes while a launch reads, so all accesses are weak.
#pragma once

#include "warp.cuh"
#include "widths.cuh"

namespace weft::graph {

// Graph is passed by value to kernels.
struct Graph {
  uint32_t* records;
  uint8_t* pool;
  uint32_t* alive;  // bitmap of the present vertices
  uint32_t vertices;  // number of vertices that have records
  uint32_t unit;      // size of a unit of blocks in bytes; a unit has kUnitEntries entries
};

constexpr uint32_t kRecordWords = 8;
constexpr uint32_t kDegree = 0;
constexpr uint32_t kClass = 1;
// first word of the neighbors in a record of class 0; weights follow the neighbors
constexpr uint32_t kInline = 2;
constexpr uint32_t kBlockUnit = 2;
constexpr uint32_t kCreated = 3;

constexpr uint32_t kBlock = 256;  // threads per block (internal/gpu)

constexpr uint32_t kUnitEntries = 8;
constexpr uint32_t kClasses = 113;

// Shape describes the size of entries with weights of Bits bits: 0, 32 or 64.
template <int Bits>
struct Shape {
  using W = typename Widths<32, Bits>::V;
  static constexpr bool weighted = Bits != 0;
  static constexpr uint32_t entry = 4 + Bits / 8;
  static constexpr uint32_t inline_entries = 4 * (kRecordWords - kInline) / entry;
  static constexpr uint32_t inline_weights = kInline + inline_entries;  // first word of weights
  static constexpr uint32_t unit = kUnitEntries * entry;
};

// class_of returns the smallest class of blocks with space for `degree` entries.
template <int Bits>
__device__ __forceinline__ uint32_t class_of(uint32_t degree) {
  if (degree <= Shape<Bits>::inline_entries) return 0;
  const uint32_t units = (degree - 1) / kUnitEntries + 1;
  if (units <= 8) return units;
  const uint32_t b = highest(units - 1) + 1;
  const uint32_t quarter = ((units - 1) >> (b - 3)) + 1;  // 5 to 8
  return 8 + (b - 4) * 4 + quarter - 4;
}

// units_of returns the number of units of a block of class c.
__device__ __forceinline__ uint32_t units_of(uint32_t c) {
  return c <= 8 ? c : (5 + (c - 9) % 4) << ((c - 9) / 4 + 1);
}

// Row holds the neighbors of a vertex, and their weights.
template <int Bits>
struct Row {
  using W = typename Shape<Bits>::W;
  uint32_t* ids;
  W* weights;
  uint32_t degree;
};

// block returns the place of a row in the block at a unit, with degree 0. c is the class of the
// block.
template <int Bits>
__device__ __forceinline__ Row<Bits> block(const Graph& g, uint32_t unit, uint32_t c) {
  using W = typename Shape<Bits>::W;
  uint8_t* at = g.pool + uint64_t(unit) * Shape<Bits>::unit;
  return {reinterpret_cast<uint32_t*>(at), reinterpret_cast<W*>(at + uint64_t(units_of(c)) * kUnitEntries * 4), 0};
}

// record_row returns the place of a row in a record, with degree 0.
template <int Bits>
__device__ __forceinline__ Row<Bits> record_row(uint32_t* record) {
  using W = typename Shape<Bits>::W;
  return {record + kInline, reinterpret_cast<W*>(record + Shape<Bits>::inline_weights % kRecordWords), 0};
}

__device__ __forceinline__ uint32_t* record_of(const Graph& g, uint32_t u) { return g.records + uint64_t(u) * kRecordWords; }

// row returns the neighbors of a vertex. A vertex without a record has none.
template <int Bits>
__device__ __forceinline__ Row<Bits> row(const Graph& g, uint32_t u) {
  if (u >= g.vertices) return {nullptr, nullptr, 0};
  uint32_t* record = record_of(g, u);
  const Word128 head = load_weak(reinterpret_cast<const Word128*>(record));
  const uint32_t degree = uint32_t(head.x), c = uint32_t(head.x >> 32);
  Row<Bits> r = c == 0 ? record_row<Bits>(record) : block<Bits>(g, uint32_t(head.y), c);
  r.degree = degree;
  return r;
}

// Ids holds the neighbors of a vertex without their weights.
struct Ids {
  const uint32_t* at;
  uint32_t n;
};

// ids returns the neighbors of a vertex. A vertex without a record has none.
__device__ __forceinline__ Ids ids(const Graph& g, uint32_t u) {
  if (u >= g.vertices) return {nullptr, 0};
  const uint32_t* record = record_of(g, u);
  const Word128 head = load_weak(reinterpret_cast<const Word128*>(record));
  const uint8_t* block = g.pool + uint64_t(uint32_t(head.y)) * g.unit;
  return {head.x >> 32 == 0 ? record + kInline : reinterpret_cast<const uint32_t*>(block), uint32_t(head.x)};
}

__device__ __forceinline__ uint32_t degree(const Graph& g, uint32_t u) {
  return u < g.vertices ? record_of(g, u)[kDegree] : 0;
}

__device__ __forceinline__ bool there(const Graph& g, uint32_t u) {
  return u < g.vertices && (g.alive[u / 32] >> u % 32 & 1);
}

// lower_bound returns the number of elements less than x among n ascending elements.
template <class N, class X>
__device__ __forceinline__ N lower_bound(const X* at, N n, X x) {
  N first = 0;
  while (n != 0) {
    const N half = n / 2;
    if (at[first + half] < x) {
      first += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return first;
}

// upper_bound returns the number of elements that are at most x among n ascending elements.
template <class N, class X>
__device__ __forceinline__ N upper_bound(const X* at, N n, X x) {
  N first = 0;
  while (n != 0) {
    const N half = n / 2;
    if (at[first + half] <= x) {
      first += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return first;
}

// find_edge reports whether a row has an edge to v. It sets `at` to the index of the edge among the
// neighbors, or to the index at which to insert it. If the edge has parallels, `at` is the index of
// the last of them.
template <int Bits>
__device__ __forceinline__ bool find_edge(const Row<Bits>& r, uint32_t v, uint32_t& at) {
  at = upper_bound(r.ids, r.degree, v);
  const bool found = at != 0 && r.ids[at - 1] == v;
  at -= found;
  return found;
}

// edge_exists reports whether the graph has an edge from u to v. One thread searches.
template <int Bits>
__device__ __forceinline__ bool edge_exists(const Graph& g, uint32_t u, uint32_t v) {
  uint32_t at;
  return find_edge(row<Bits>(g, u), v, at);
}

// for_each_neighbor calls f(v, weight) for the neighbors of a vertex. A tile of lanes shares the
// neighbors, and rank is the number of this lane in the tile. Without weights, weight is 1.
template <int Bits, class F>
__device__ __forceinline__ void for_each_neighbor(const Graph& g, uint32_t u, uint32_t rank, uint32_t lanes, F f) {
  const Row<Bits> r = row<Bits>(g, u);
  for (uint32_t i = rank; i < r.degree; i += lanes) {
    if constexpr (Shape<Bits>::weighted) {
      f(r.ids[i], r.weights[i]);
    } else {
      f(r.ids[i], typename Shape<Bits>::W(1));
    }
  }
}

// last_of_warp returns the index of the last of n ascending numbers that is at most x. The first
// number must be at most x. All lanes of the warp search for the same x together.
template <class X>
__device__ __forceinline__ uint32_t last_of_warp(const X* at, uint32_t n, X x) {
  const uint32_t lane = lane_index();
  uint32_t first = 0, end = n;  // the result is in [first, end)
  while (end - first > 1) {
    const uint32_t step = (end - first + kWarp - 1) / kWarp, probe = first + step * lane;
    const uint32_t last = popcount(ballot(kAll, probe < end && at[probe] <= x)) - 1;
    first += step * last;
    if (end - first > step) end = first + step;
  }
  return first;
}

// Elements holds up to kInFlight elements of rows for a lane, so that their loads are issued
// together. kNoRow is the row of an element that does not exist. kMaxChunk is the maximum number of
// elements that a warp takes at a time.
constexpr uint32_t kInFlight = 4, kNoRow = 0xffffffff, kMaxChunk = 1024;
struct Elements {
  uint32_t row[kInFlight];
  uint64_t at[kInFlight];
};

// for_each_elements calls f with all elements of n rows, in groups. Row i begins at offsets[i], and
// offsets[n] is the end of the last row. A warp takes a chunk of elements, which may begin and end
// within a row. In this way, many warps share a hub, which is a row with many elements.
template <class O, class F>
__device__ __forceinline__ void for_each_elements(const O* offsets, uint32_t n, F f) {
  if (n == 0) return;
  const uint64_t total = offsets[n], warps = threads_in_grid() / kWarp;
  uint64_t chunk = (total + warps - 1) / warps;
  chunk = chunk < kMaxChunk ? (chunk + kInFlight * kWarp - 1) / (kInFlight * kWarp) * (kInFlight * kWarp) : kMaxChunk;
  for (uint64_t base = thread_index() / kWarp * chunk; base < total; base += warps * chunk) {
    const uint64_t end = base + chunk < total ? base + chunk : total;
    const uint32_t first = last_of_warp(offsets, n, O(base)), rows = last_of_warp(offsets + first, n - first, O(end - 1)) + 1;
    for (uint64_t from = base + lane_index(); from - lane_index() < end; from += kInFlight * kWarp) {
      Elements e;
#pragma unroll
      for (uint32_t k = 0; k < kInFlight; k++) e.row[k] = first;
      for (uint32_t left = rows; left > 1; left -= left / 2) {
#pragma unroll
        for (uint32_t k = 0; k < kInFlight; k++) e.row[k] += offsets[e.row[k] + left / 2] <= from + k * kWarp ? left / 2 : 0;
      }
#pragma unroll
      for (uint32_t k = 0; k < kInFlight; k++) {
        e.at[k] = from + k * kWarp - offsets[e.row[k]];
        if (from + k * kWarp >= end) e.row[k] = kNoRow;
      }
      f(e);
    }
  }
}

// for_each_element calls f(row, i) for element i of each row.
template <class O, class F>
__device__ __forceinline__ void for_each_element(const O* offsets, uint32_t n, F f) {
  for_each_elements(offsets, n, [&](const Elements& e) {
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++)
      if (e.row[k] != kNoRow) f(e.row[k], e.at[k]);
  });
}

}  // namespace weft::graph
