// Batches of edges without requested outcomes. They change the graph in place, with one operation
// per arc. One read of a base slab decides most operations. graph_gpu_plain.go explains the
// launches.
#pragma once

#include "graph.cuh"

namespace weft::slab {

// ---- a batch ----------------------------------------------------------------

// Plain is a batch of edges. Each edge is one arc, or one arc each way.
struct Plain {
  const uint32_t* from;
  const uint32_t* to;
  uint32_t n;     // number of edges
  uint32_t both;  // 1: each edge is two arcs
  uint32_t most;  // exclusive limit of vertices
  uint32_t unused;
};

struct PlainParams {
  Graph graph;
  Plain edges;
  uint64_t* rest;   // arcs that overflow
  uint32_t listed;  // capacity of rest
  uint32_t ticket;
  uint32_t flags;
  uint32_t unused;
};

// check records whether a vertex is out of range. If so, nothing is inserted. Each thread has four
// edges in flight.
__device__ __forceinline__ void check(const PlainParams& p) {
  constexpr uint32_t kAtOnce = 4;
  Tried* t = tried(p.graph);
  const uint64_t step = threads_in_grid();
  if (thread_index() == 0) store_relaxed(&t->left, 0u);
  for (uint64_t first = thread_index(); first < p.edges.n; first += kAtOnce * step) {
    uint32_t u[kAtOnce], v[kAtOnce];
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce; k++) {
      const uint64_t i = first + k * step;
      u[k] = i < p.edges.n ? p.edges.from[i] : 0, v[k] = i < p.edges.n ? p.edges.to[i] : 0;
    }
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce; k++)
      if (u[k] >= p.edges.most || v[k] >= p.edges.most) max_relaxed(&t->bad, uint64_t(p.ticket) << 32 | uint32_t(~(first + k * step)));
  }
}

// plain returns the operation of this thread.
template <class S>
__device__ __forceinline__ Operation<S> plain(const Plain& e, uint32_t kind) {
  const uint64_t arc = thread_index(), i = arc >> e.both;
  Operation<S> op{i < e.n, kind, kNoArc, 0};
  if (op.there) {
    const uint32_t u = load_once(e.from + i), v = load_once(e.to + i);
    op.key = (arc & e.both) != 0 ? arc_of(v, u) : arc_of(u, v);
    op.there = u != v;
  }
  return op;
}

// ---- the first look ---------------------------------------------------------

// Look is a tile's read of the base slab of an operation's bucket, and the change in that slab.
template <class S, bool Inserts>
struct Look : SlabTile<S> {
  using Word = typename S::Word;
  static_assert(!Inserts || !S::kHasValue);

  uint32_t from;  // the lane with the operation
  bool busy;      // that lane has an operation
  bool won;       // this lane has changed a slot
  uint32_t founds, empties[kPieces];

  __device__ __forceinline__ void load(const Located& g, uint32_t those, uint32_t number) {
    from = this->base + number, busy = those >> from & 1, won = false;
    const uint32_t bucket = shuffle(kAll, g.home, from);
    if (!busy) return;
    this->slab = g.table.slab(bucket, kNoUnit);
#pragma unroll
    for (int v = 0; v < kPieces; v++) this->piece[v].whole = load_relaxed(this->slab + v * kLanes + this->rank);
    // The link must read as slots without a key.
    if (this->rank == kLanes - 1) this->piece[kPieces - 1].whole.y = S::kNone * 0x1'0000'0001ul;
  }

  // act deletes the neighbor if it is present. With Inserts, it instead stores the neighbor in the
  // first empty slot if the neighbor is absent. A slab with an empty slot is the last slab of its
  // chain. weft/slab_change.cuh explains why the first empty slot is the right one.
  __device__ __forceinline__ void act(uint32_t name) {
    const uint32_t key = shuffle(kAll, name, from);
    int match = -1, empty = -1;
    this->each([&](int v, int j, Word w) {
      if (uint32_t(S::key(w)) == key) match = v * this->kSlots + j;
      if (empty < 0 && uint32_t(S::key(w)) == S::kEmpty) empty = v * this->kSlots + j;
    });
    founds = this->vote(busy && match >= 0);
#pragma unroll
    for (int v = 0; v < kPieces; v++) empties[v] = this->vote(busy && empty >= 0 && empty / this->kSlots == v);
    if constexpr (Inserts) {
      const uint32_t lanes = empties[0] != 0 ? empties[0] : empties[1];
      if (founds == 0 && lanes != 0 && this->rank == lowest(lanes)) swap(empty, S::pair(S::kEmpty, 0), S::pair(key, 0));
    } else if (busy && match >= 0) {
      swap(match, this->word(match), S::dead(key));
    }
  }
  __device__ __forceinline__ void swap(int number, Word word, Word to) {
    won = S::swap(this->at(number / this->kSlots, number % this->kSlots), word, to);
  }

  // tell returns the outcome. It returns kAgain if the slab does not decide it, or if another
  // thread was faster.
  __device__ __forceinline__ Outcome tell() const {
    const bool done = this->vote(won) != 0;
    if constexpr (Inserts) return founds != 0 ? kPresent : done ? kInserted : kAgain;
    return done ? kDeleted : founds == 0 && (empties[0] | empties[1]) != 0 ? kNothing : kAgain;
  }
};

// look_first sets the outcomes that one Look decides, and kAgain for the other operations. Each
// tile has two Looks in flight.
template <class S, bool Inserts>
__device__ __forceinline__ void look_first(const Located& g, Operation<S>& op) {
  constexpr uint32_t kAtOnce = 2;
  const uint32_t name = uint32_t(stored<S>(op.key)), those = ballot(kAll, op.there);
#pragma unroll
  for (uint32_t r = 0; r < kLanes; r += kAtOnce) {
    Look<S, Inserts> look[kAtOnce];
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce; k++) look[k].load(g, those, r + k);
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce; k++) look[k].act(name);
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce; k++) {
      const Outcome told = look[k].tell();
      if (op.there && lane_index() == look[k].from) op.outcome = told;
    }
  }
}

// run completes operations of one kind. Insertions that may take dead slots skip the first look,
// and search whole chains.
template <class S, bool Inserts>
__device__ __forceinline__ void run(const PlainParams& p, Operation<S>& op) {
  const Located g(p.graph, locate<S>(p.graph, op.key));
  if (op.there && g.home == g.table.buckets) {  // the vertex has no table
    op.there = false;
    if (Inserts) op.outcome = kFull;
  }
  if (p.flags & kReuse) {
    op.outcome = op.there ? kAgain : op.outcome;
  } else {
    look_first<S, Inserts>(g, op);
  }
  const bool again = op.there && op.outcome == kAgain;
  if (ballot(kAll, again) != 0) {
    Operation<S> rest{again, op.kind, op.key, op.value};
    change<S, false>(g, p.flags, rest);
    if (again) op.outcome = rest.outcome;
  }
  count_arcs(p.graph, op);
}

// insert inserts arcs, unless a vertex is out of range. It lists arcs that overflow: their vertex
// has no table, a chain would exceed its limit, or no slab is free.
template <class S>
__device__ __forceinline__ void insert(const PlainParams& p) {
  Tried* t = tried(p.graph);
  if (refused(t, p.ticket)) return;
  Operation<S> op = plain<S>(p.edges, kPutNew);
  run<S, true>(p, op);
  const uint32_t full = ballot(kAll, op.outcome == kFull), lane = lane_index();
  if (full != 0) {
    uint32_t at = 0;
    if (lane == lowest(full)) at = add_relaxed(&t->left, uint32_t(popcount(full)));
    at = shuffle(kAll, at, lowest(full)) + popcount(full & ((1u << lane) - 1));
    if ((full >> lane & 1) && at < p.listed) p.rest[at] = op.key;
  }
  const uint32_t fresh = count_block(op.outcome == kInserted), revived = p.flags & kReuse ? count_block(op.outcome == kRevived) : 0;
  if (thread_in_block() != 0 || fresh + revived == 0) return;
  add_relaxed(&t->live, uint64_t(fresh) + revived);
  add_relaxed(&t->used, uint64_t(fresh));
}

// erase deletes arcs.
template <class S>
__device__ __forceinline__ void erase(const PlainParams& p) {
  Operation<S> op = plain<S>(p.edges, kDelete);
  run<S, false>(p, op);
  const uint32_t deleted = count_block(op.outcome == kDeleted);
  if (thread_in_block() == 0 && deleted != 0) add_relaxed(&p.graph.table.counters->live, 0 - uint64_t(deleted));
}

}  // namespace weft::slab
