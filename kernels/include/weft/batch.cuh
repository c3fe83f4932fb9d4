// Parameters of batches for the kernels of all structures, and what a thread does before and after
// the structure's own work. It reads its operation, writes the outcome, and lists the operation if
// work is left.
#pragma once

#include "change.cuh"

namespace weft {

// ---- parameters ------------------------------------------------------------

struct Lookup {
  const void* keys;
  void* vals;      // may be null
  uint8_t* found;  // may be null
  uint64_t* hits;  // may be null; incremented
  uint64_t n;
  uint32_t spread;  // one key per tile instead of one per lane
  uint32_t narrow;  // NarrowColumns
};

struct Changes {
  const void* keys;
  const void* vals;      // may be null if no operation has a value
  const uint8_t* kinds;  // may be null if all operations are of one kind
  void* out;             // values that Get and PutNew return; may be null
  uint8_t* ok;           // may be null
  uint32_t* removed;     // number of pairs removed by each DeleteAll; may be null
  List contended;        // used with kContend
  List failed;           // operations that found no slot; items may be null
  uint32_t n;
  uint32_t first;  // added to the indices in failed
  uint32_t kind;
  uint32_t flags;
  uint32_t* reductions;  // set to the ticket if a mixed batch has reductions
  uint32_t ticket;
  uint32_t narrow;  // NarrowColumns
};

struct Export {
  void* keys;
  void* vals;
  uint64_t* count;  // incremented
  uint64_t rows;    // capacity of keys and vals
  uint32_t lo, hi;  // range of numbers in the order of step (spread.cuh)
  uint32_t step;
  uint32_t narrow;  // NarrowColumns
};

// Parameters of the kernels of all structures: a table, by value, and a batch.
template <class Table>
struct GetParams {
  Table table;
  Lookup lookup;
};
template <class Table>
struct ChangeParams {
  Table table;
  Changes changes;
};
template <class Table>
struct WinnersParams {
  Table table;
  Winners winners;
};
template <class Table>
struct ExportParams {
  Table table;
  Export to;
};

// ---- lookups ---------------------------------------------------------------

// Query is the key that a lane looks up.
template <class S>
struct Query {
  uint64_t i;  // index of the key in the batch
  bool there;  // whether the lane has a key
  typename S::Key key;
};

// query reads the key of thread number `at`. rank is the rank of the thread in a tile of Lanes
// lanes. A small batch has one key per tile, so that it completes sooner.
template <class S, class K, int Lanes>
__device__ __forceinline__ Query<S> query(const Lookup& l, uint32_t rank, uint64_t at = thread_index()) {
  bool spread = l.spread;
  uint64_t i = spread ? at / Lanes : at;
  bool there = i < l.n && (!spread || rank == 0);
  return {i, there, there ? typename S::Key(Column<K>::read_once(l.keys, i, l.narrow & kNarrowKeys)) : typename S::Key(0)};
}

// tell writes the result of a lane's lookup.
template <class S, class V>
__device__ __forceinline__ void tell(const Lookup& l, const Query<S>& q, bool hit, typename S::Key value) {
  if (!q.there) return;
  if constexpr (S::kHasValue)
    if (l.vals) Column<V>::write_once(l.vals, q.i, hit ? value : 0, l.narrow & kNarrowValues);
  if (l.found) store_once(l.found + q.i, uint8_t(hit));
}

// answer writes the results of the lookups of a block, and counts the hits. All threads of the
// block must call it.
template <class S, class V>
__device__ __forceinline__ void answer(const Lookup& l, const Query<S>& q, bool hit, typename S::Key value) {
  tell<S, V>(l, q, hit, value);
  if (l.hits) count(l.hits, q.there && hit);
}

// ---- changes ---------------------------------------------------------------

// operation reads operation i of a batch, if that exists.
template <class S, class K, class V>
__device__ __forceinline__ Operation<S> operation(const Changes& c, uint32_t i) {
  using Key = typename S::Key;
  Operation<S> op{i < c.n, c.kind, 0, 0};
  if (op.there) {
    op.key = Key(Column<K>::read_once(c.keys, i, c.narrow & kNarrowKeys));
    if (c.kinds) op.kind = known<S>(load_once(c.kinds + i), c.flags);
    if constexpr (S::kHasValue)
      if (c.vals) op.value = Key(Column<V>::read_once(c.vals, i, c.narrow & kNarrowValues));
  }
  return op;
}

// defer_reductions leaves the reductions of a mixed batch to a later launch. All lanes of a warp
// must call it.
template <class S>
__device__ __forceinline__ void defer_reductions(const Changes& c, Operation<S>& op) {
  if constexpr (!S::kHasValue) return;
  bool leaves = op.there && reduces(op.kind);
  if (leaves) op.there = false;
  if (ballot(kAll, leaves) != 0 && lane_index() == 0) store_relaxed(c.reductions, c.ticket);
}

// outcome writes the outcome of operation i.
template <class S, class V>
__device__ __forceinline__ void outcome(const Changes& c, uint32_t i, const Operation<S>& op) {
  if (!op.there) return;
  bool present = op.outcome == kPresent;
  bool ok = inserted(op.outcome) || op.outcome == kDeleted || (op.kind == kGet && present);
  if (c.ok) store_once(c.ok + i, uint8_t(ok));
  // out and vals may be the same column. An operation that overflowed needs its value again.
  bool kept = op.outcome == kFull && c.out == c.vals;
  if constexpr (S::kHasValue)
    if (c.out && !kept)
      Column<V>::write_once(c.out, i, present && (op.kind == kGet || op.kind == kPutNew) ? op.value : 0, c.narrow & kNarrowValues);
}

// contends reports whether duplicates could have decided the outcome of an operation (order.cuh).
// This includes an operation that found no slot, since another operation on its key may have found
// one.
template <class S>
__device__ __forceinline__ bool contends(const Operation<S>& op) {
  if (op.kind == kDelete) return op.there && op.outcome == kNothing;
  return op.outcome == kPresent || op.outcome == kFull;
}

// list adds operation i to the contended operations if `contends` is set, and to the failed ones if
// it found no slot. All lanes of a warp must call it.
template <class S>
__device__ __forceinline__ void list(const Changes& c, uint32_t i, const Operation<S>& op, bool contends) {
  if (c.flags & kContend) record(c.contended, i, contends);
  record(c.failed, c.first + i, op.outcome == kFull);
}

// ---- whole tables ----------------------------------------------------------

// emit writes the pairs of the lanes of a warp that have one. Pairs that do not fit into the
// columns are counted, but not written. All lanes must call emit.
template <class S, class K, class V>
__device__ __forceinline__ void emit(const Export& e, bool live, typename S::Key key, typename S::Key value) {
  uint32_t votes = ballot(kAll, live), lane = lane_index();
  uint64_t at = 0;
  if (votes == 0) return;
  if (lane == lowest(votes)) at = add_relaxed(e.count, uint64_t(popcount(votes)));
  at = shuffle(kAll, at, lowest(votes)) + popcount(votes & ((1u << lane) - 1));
  if (!live || at >= e.rows) return;
  Column<K>::write(e.keys, at, key, e.narrow & kNarrowKeys);
  if constexpr (S::kHasValue) Column<V>::write(e.vals, at, value, e.narrow & kNarrowValues);
}

}  // namespace weft
