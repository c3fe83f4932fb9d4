// Graphs of package slab (Go twin: slab/graph_layout.go): a slab hash for each vertex, in one table
// with arcs as keys. An arc is named by 64 bits, its source above its target; a slot stores the
// lower half.
#pragma once

#include "slab_table.cuh"

namespace weft::slab {

// Vertex is the handle of a table.
struct Vertex {
  uint32_t first;   // base slab
  uint32_t slabs;   // base slabs; 0 without edges
  uint32_t degree;
  uint32_t coming;  // insertions of the batch to make space for
};

// Graph is passed by value to kernels.
struct Graph {
  Table table;
  Vertex* vertices;
  uint32_t* owners;  // of base slabs
  uint32_t n;        // vertices
  uint32_t longest;  // slabs from which on a chain gets no others

  __device__ __forceinline__ operator const Table&() const { return table; }
};

// Demand describes what a batch of insertions needs.
struct Demand {
  uint32_t bad;       // ~ the first arc with an invalid vertex, or 0
  uint32_t vertices;  // one more than the largest vertex number
  uint32_t crowded;   // vertices with chains that would get long
  uint32_t lost;      // arcs that found no slot when moved
  uint64_t slabs;     // base slabs for those, or for all
  uint64_t kept;      // growth in their number after the move
  uint64_t arcs;      // arcs of those vertices
};

// Tried is the report of a batch of insertions that may overflow. It begins with the counters of
// its table.
struct Tried {
  uint64_t live;
  uint64_t used;
  // The ticket of the last batch with an invalid vertex, above ~ the first edge that has one.
  uint64_t bad;
  uint32_t left;  // arcs that found no slot
  uint32_t unused;
};

// Move describes a table that moves.
struct Move {
  uint32_t vertex;
  uint32_t first;  // base slab after the move
  uint32_t slabs;
  uint32_t lost;
};

constexpr uint64_t kNoArc = ~0ul;

__device__ __forceinline__ uint32_t source_of(uint64_t arc) { return uint32_t(arc >> 32); }
__device__ __forceinline__ uint64_t arc_of(uint32_t from, uint32_t to) { return uint64_t(from) << 32 | to; }

// Marks are the sentinels of slots that have 32 bits of a key.
struct Marks {
  using Key = uint64_t;
  static constexpr Key kEmpty = 0xffffffff, kDead = kEmpty - 1, kPending = kEmpty - 2, kNone = kEmpty - 3;
  static constexpr bool kTwoStep = false;
};

// ArcOnly and ArcPair are the slots of graphs without weights, and with weights of 32 bits.
struct ArcOnly : Marks {
  using Word = uint32_t;
  static constexpr bool kHasValue = false;
  __device__ static Key key(Word w) { return w; }
  __device__ static Key value(Word) { return 0; }
  __device__ static Word pair(Key k, Key) { return Word(k); }
  __device__ static Word dead(Key) { return Word(kDead); }
  __device__ static bool is_dead(Word, Key) { return false; }
  __device__ static bool swap(Word* slot, Word from, Word to) { return cas_relaxed(slot, from, to) == from; }
};
struct ArcPair : Marks {
  using Word = uint64_t;
  static constexpr bool kHasValue = true;
  __device__ static Key key(Word w) { return w >> 32; }
  __device__ static Key value(Word w) { return uint32_t(w); }
  __device__ static Word pair(Key k, Key v) { return k << 32 | uint32_t(v); }
  __device__ static Word dead(Key k) { return pair(kDead, k); }
  __device__ static bool is_dead(Word w, Key k) { return w == dead(k); }
  __device__ static bool swap(Word* slot, Word from, Word to) { return cas_relaxed(slot, from, to) == from; }
};
template <>
constexpr bool kArcs<ArcOnly> = true;
template <>
constexpr bool kArcs<ArcPair> = true;

// bucket_in returns the bucket of a neighbor in the table of a vertex.
__device__ __forceinline__ uint32_t bucket_in(uint64_t seed, uint32_t first, uint32_t slabs, uint32_t to) {
  return first + reduce(hash(to, seed), slabs);
}

// locate returns the bucket of an arc, or the extra one, which is empty, if no such vertices exist.
template <class S>
__device__ __forceinline__ uint32_t locate(const Graph& t, uint64_t arc) {
  const uint32_t u = source_of(arc), v = uint32_t(arc);
  if (u >= t.n || v >= uint32_t(S::kNone)) return t.table.buckets;
  const uint64_t handle = load_relaxed(reinterpret_cast<const uint64_t*>(t.vertices + u));
  const uint32_t slabs = uint32_t(handle >> 32);
  return slabs == 0 ? t.table.buckets : bucket_in(t.table.seed, uint32_t(handle), slabs, v);
}
// original returns an arc that a base slab holds in the table of its owner.
template <class S>
__device__ __forceinline__ uint64_t original(const Graph& t, uint64_t stored, uint32_t bucket) {
  return arc_of(t.owners[bucket], uint32_t(stored));
}

// count_arcs adds what the lanes of a warp have inserted or deleted to the degrees of its vertices,
// with one atomic for each vertex (the thesis' algorithm 5.1). All lanes must call it, in a launch
// of one kind.
template <class S>
__device__ __forceinline__ void count_arcs(const Graph& t, const Operation<S>& op) {
  const bool fresh = inserted(op.outcome), counts = fresh || op.outcome == kDeleted;
  const uint32_t lane = lane_index(), u = source_of(op.key);
  const uint32_t same = match_any(kAll, counts ? u : kAll - lane);  // vertices are below 2^31
  if (!counts || lane != lowest(same)) return;
  const uint32_t n = popcount(same);
  add_relaxed(&t.vertices[u].degree, fresh ? n : 0 - n);
}

}  // namespace weft::slab
