// A slab.Graph or slab.WeightedGraph in users' kernels. Package slab documents how to get a
// GraphRef in Go; docs/refs.md is a guide.
//
//	__global__ void friends(slab::GraphRef<> of, …) {
//	  of.for_each(u, [&](uint32_t v) { if (of.edge_exists(v, w)) … });
//
// Changes may run concurrently with kernels that read. A kernel may find or miss an edge that is
// inserted or deleted at the same time. A vertex without edges has no neighbors, and any number may
// be passed as a vertex. Functions receive the neighbor, and the weight if the graph has weights:
// f(v) or f(v, weight).
//
// A call without a suffix serves one lane and is valid anywhere: lanes may diverge, loop, and have
// returned. A call with _tile serves kTile neighboring lanes with the same vertex, which share its
// slabs. A call with _warp serves all 32 lanes of a warp together. Each lane brings one edge or
// none, and the warp reads memory as weft's own batches do. No lane may have returned or be in
// another branch. All threads of a launch call for_each_arc.
#pragma once

#include "ref.cuh"
#include "slab_alone.cuh"
#include "slab_arcs.cuh"
#include "slab_find.cuh"

namespace weft::slab {

// ArcSlot defines the slot of arcs with weights of Bytes bytes.
template <uint32_t Bytes>
struct ArcSlot;
template <>
struct ArcSlot<0> {
  using S = ArcOnly;
};
template <>
struct ArcSlot<4> {
  using S = ArcPair;
};

// GraphRef is passed to kernels by value. W is the Go type of the weights, or void if edges have
// none.
template <class W = void>
struct GraphRef {
  static constexpr uint32_t kTile = 4;
  static constexpr int kBits = 8 * As<W>::kBytes;
  using Weight = typename As<W>::Given;

  Graph graph;
  uint64_t weight;  // bytes per weight

  // degree returns the number of neighbors of a vertex.
  __device__ __forceinline__ uint32_t degree(uint32_t u) const { return u < graph.n ? load_relaxed(&graph.vertices[u].degree) : 0; }

  // edge_exists reports whether the graph has an edge from u to v.
  __device__ __forceinline__ bool edge_exists(uint32_t u, uint32_t v) const { return find(u, v, nullptr); }
  // find reports whether the graph has an edge from u to v. It stores the weight of the edge in
  // *weight, if weight is not null.
  __device__ __forceinline__ bool find(uint32_t u, uint32_t v, Weight* weight) const {
    check();
    uint64_t held;
    return give(find_by_lane<S>(graph, arc_of(u, v), held), held, weight);
  }
  __device__ __forceinline__ bool edge_exists_warp(bool there, uint32_t u, uint32_t v) const { return find_warp(there, u, v, nullptr); }
  __device__ __forceinline__ bool find_warp(bool there, uint32_t u, uint32_t v, Weight* weight) const {
    check();
    if (ballot(kAll, true) != kAll) asm volatile("trap;" ::: "memory");
    uint64_t held;
    return give(slab::find<S, false>(graph, there, arc_of(u, v), held), held, weight);
  }

  // for_each calls f for all neighbors of a vertex, in no order.
  template <class F>
  __device__ __forceinline__ void for_each(uint32_t u, F f) const {
    some<1>(u, f);
  }
  // for_each_tile calls f for each neighbor in one lane of the tile.
  template <class F>
  __device__ __forceinline__ void for_each_tile(uint32_t u, F f) const {
    some<kTile>(u, f);
  }
  // for_each_arc calls f(u, v), or f(u, v, weight), for each arc in one thread of the launch. An
  // edge of an undirected graph is two arcs. All threads of the launch must call it. It iterates
  // over base slabs, which spreads a vertex with many neighbors over many threads.
  template <class F>
  __device__ __forceinline__ void for_each_arc(F f) const {
    check();
    for (uint64_t b = thread_index() / kTile; b < graph.table.buckets; b += threads_in_grid() / kTile) {
      const uint32_t u = graph.owners[b];
      if (u == kAll) continue;
      chain<kTile>(uint32_t(b), [&](typename S::Word w) { call(w, [&](uint32_t v, auto... weight) { f(u, v, weight...); }); });
    }
  }

 private:
  using S = typename ArcSlot<As<W>::kBytes>::S;

  __device__ __forceinline__ void check() const {
    if (weight != As<W>::kBytes) asm volatile("trap;" ::: "memory");
  }
  __device__ __forceinline__ static bool give(bool found, uint64_t held, Weight* weight) {
    if (found && weight != nullptr) *weight = As<W>::from(held);
    return found;
  }

  // call calls f with the neighbor, and the weight if any, in a slot.
  template <class F>
  __device__ __forceinline__ static void call(typename S::Word w, F f) {
    if constexpr (kBits != 0) {
      f(uint32_t(S::key(w)), As<W>::from(S::value(w)));
    } else {
      f(uint32_t(S::key(w)));
    }
  }

  template <uint32_t Lanes, class F>
  __device__ __forceinline__ void some(uint32_t u, F& f) const {
    check();
    if (u >= graph.n) return;
    const uint64_t handle = load_relaxed(reinterpret_cast<const uint64_t*>(graph.vertices + u));
    const uint32_t first = uint32_t(handle), slabs = uint32_t(handle >> 32);
#pragma unroll 1
    for (uint32_t b = first; b - first < slabs; b++)
      chain<Lanes>(b, [&](typename S::Word w) { call(w, f); });
  }

  // chain calls f for the slots of a bucket that have edges. `Lanes` lanes share its slabs, a
  // quarter of a slab at a time. Each lane reads the links by itself.
  template <uint32_t Lanes, class F>
  __device__ __forceinline__ void chain(uint32_t bucket, F f) const {
    Part<S> part;
#pragma unroll 1
    for (uint32_t at = kNoUnit;;) {
      Word128* slab = graph.table.slab(bucket, at);
      const uint32_t next = load_relaxed(&link_of(slab)->next);
#pragma unroll 1
      for (uint32_t n = lane_index() % Lanes; n < part.kParts; n += Lanes) {
        part.load(slab, n);
        uint32_t live = 0;
        part.each([&](int v, int j, typename S::Word w) {
          if (S::key(w) < S::kNone) live |= 1u << (v * part.kSlots + j);
        });
#pragma unroll 1
        for (; live != 0; live &= live - 1) f(part.word(lowest(live)));
      }
      if (next == kNoUnit) return;
      at = next;
      graph.table.alloc.meet(at, 1u << lane_index());
    }
  }
};

}  // namespace weft::slab
