// Graphs of package slab (also in Go: slab/graph_layout.go). Each vertex has a slab hash, and all
// of them form one table with arcs as keys. An arc has 64 bits, with the source in the upper half
// and the target in the lower half. A slot stores only the target.
#pragma once

#include "slab_table.cuh"

namespace weft::slab {

// Vertex describes the slab hash of a vertex.
struct Vertex {
  uint32_t first;   // first base slab
  uint32_t slabs;   // number of base slabs; 0: the vertex has none
  uint32_t degree;
  uint32_t coming;  // insertions of a batch for which space is reserved
};

// Graph is passed by value to kernels.
struct Graph {
  Table table;
  Vertex* vertices;
  uint32_t* owners;  // by base slab: the vertex that owns it, or kAll
  uint32_t n;        // number of vertices
  uint32_t longest;  // chains with this number of slabs are not extended

  __device__ __forceinline__ operator const Table&() const { return table; }
};

// Demand describes what a batch of insertions needs.
struct Demand {
  uint32_t bad;       // complement of the index of the first edge with an invalid vertex, or 0
  uint32_t vertices;  // 1 + the largest source that has no Vertex yet, or 0
  uint32_t crowded;   // number of vertices with chains that would get long
  uint32_t lost;      // number of these vertices with arcs that found no slot in the move
  uint64_t slabs;     // number of base slabs that these vertices, or all, need
  uint64_t kept;      // growth of the number of their base slabs by the move
  uint64_t arcs;      // number of their arcs
};

// Tried holds the results of a batch of insertions that may overflow. It begins with the counters
// of the graph's table.
struct Tried {
  uint64_t live;
  uint64_t used;
  // Upper half: ticket of the last batch with an invalid vertex. Lower half: complement of the
  // first index of an edge with such a vertex.
  uint64_t bad;
  uint32_t left;  // number of arcs that found no slot
  uint32_t unused;
};

// Move describes the move of a vertex's slab hash to other base slabs.
struct Move {
  uint32_t vertex;
  uint32_t first;  // first base slab after the move
  uint32_t slabs;
  uint32_t lost;
};

constexpr uint64_t kNoArc = ~0ul;

__device__ __forceinline__ uint32_t source_of(uint64_t arc) { return uint32_t(arc >> 32); }
__device__ __forceinline__ uint64_t arc_of(uint32_t from, uint32_t to) { return uint64_t(from) << 32 | to; }

// ArcSentinels defines the sentinels of slots that store 32 bits of a key.
struct ArcSentinels {
  using Key = uint64_t;
  static constexpr Key kEmpty = 0xffffffff, kDead = kEmpty - 1, kPending = kEmpty - 2, kNone = kEmpty - 3;
  static constexpr bool kTwoStep = false;
};

// ArcOnly is the slot of graphs without weights. ArcPair is the slot of graphs with weights of 32
// bits.
struct ArcOnly : ArcSentinels {
  using Word = uint32_t;
  static constexpr bool kHasValue = false;
  __device__ static Key key(Word w) { return w; }
  __device__ static Key value(Word) { return 0; }
  __device__ static Word pair(Key k, Key) { return Word(k); }
  __device__ static Word dead(Key) { return Word(kDead); }
  __device__ static bool is_dead(Word, Key) { return false; }
  __device__ static bool swap(Word* slot, Word from, Word to) { return cas_relaxed(slot, from, to) == from; }
};
struct ArcPair : ArcSentinels {
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

// bucket_in returns the bucket of neighbor `to` in the slab hash of a vertex.
__device__ __forceinline__ uint32_t bucket_in(uint64_t seed, uint32_t first, uint32_t slabs, uint32_t to) {
  return first + reduce(hash(to, seed), slabs);
}

// locate returns the bucket of an arc. If the arc is invalid or its source has no base slabs, it
// returns the extra bucket, which is empty.
template <class S>
__device__ __forceinline__ uint32_t locate(const Graph& t, uint64_t arc) {
  const uint32_t u = source_of(arc), v = uint32_t(arc);
  if (u >= t.n || v >= uint32_t(S::kNone)) return t.table.buckets;
  const uint64_t handle = load_relaxed(reinterpret_cast<const uint64_t*>(t.vertices + u));
  const uint32_t slabs = uint32_t(handle >> 32);
  return slabs == 0 ? t.table.buckets : bucket_in(t.table.seed, uint32_t(handle), slabs, v);
}
// original returns the arc that is stored in a bucket.
template <class S>
__device__ __forceinline__ uint64_t original(const Graph& t, uint64_t stored, uint32_t bucket) {
  return arc_of(t.owners[bucket], uint32_t(stored));
}

// count_arcs updates the degrees of vertices after the lanes of a warp have inserted or deleted
// arcs. It uses one atomic per vertex (the thesis' algorithm 5.1). All lanes must call it. The
// launch must only insert, or only delete.
template <class S>
__device__ __forceinline__ void count_arcs(const Graph& t, const Operation<S>& op) {
  const bool fresh = inserted(op.outcome), counts = fresh || op.outcome == kDeleted;
  const uint32_t lane = lane_index(), u = source_of(op.key);
  const uint32_t same = match_any(kAll, counts ? u : kAll - lane);  // a vertex is less than 2^31
  if (!counts || lane != lowest(same)) return;
  const uint32_t n = popcount(same);
  add_relaxed(&t.vertices[u].degree, fresh ? n : 0 - n);
}

}  // namespace weft::slab
