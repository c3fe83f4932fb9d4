// Batches of edges for a graph (package graph, gpuchange.go). Its arcs, sorted by both ends, are segments of one vertex each,
// in which those of one edge come in the order of the batch. Each launch below does a step for all of them; rows are written anew, to other
// blocks, so that every entry of an old row and every new one finds its place by itself.
#pragma once

#include "graph_table.cuh"
#include "inorder.cuh"

namespace weft::graph {

constexpr uint32_t kNone = 0xffffffff;  // the vertex of arcs that have no place in rows
constexpr uint8_t kPut = 1;             // op.Put

// Control is what kernels tell the host, and each other.
struct Control {
  uint64_t changed;    // operations that did something
  uint32_t bad;        // the first operation with a vertex beyond the limit; kNone
  uint32_t end;        // of the vertices that get records
  uint32_t all;        // of all vertices of the batch
  uint32_t segments;
  uint32_t arcs;       // more than there were
  uint32_t loops;
};

// What becomes of an edge.
constexpr uint8_t kStays = 0;
constexpr uint8_t kAdded = 1;
constexpr uint8_t kUpdated = 2;
constexpr uint8_t kRemoved = 3;

// Arcs is the arcs of a batch, sorted, and what is known of them. n is their number. In a multigraph what is put is added beside what is there,
// and a deletion removes all parallel edges; what a batch removes from a row is said of the first arc of an edge there, and of the last one elsewhere.
struct Arcs {
  const uint64_t* keys;   // source and target, of so many bits each
  const uint32_t* rows;   // operations; if they have two arcs each, twice that, and one more for the second
  const uint8_t* kinds;   // of operations; may be null
  uint32_t* sources;
  uint32_t* places;       // in the old row; of an added edge, behind its parallels
  uint32_t* deltas;       // 1, 0 or -1; in a multigraph less as many as are removed
  uint8_t* nets;
  Control* control;
  uint32_t n;
  uint32_t bits;
  uint32_t kind;          // of all operations, if they have no kinds
  uint32_t two;           // 1: an operation has two arcs
  uint32_t multi;         // 1: a multigraph
  uint32_t unused;
};

__device__ __forceinline__ uint32_t source_of(const Arcs& a, uint64_t i) { return uint32_t(a.keys[i] >> a.bits); }
__device__ __forceinline__ uint32_t target_of(const Arcs& a, uint64_t i) { return uint32_t(a.keys[i] & ((uint64_t(1) << a.bits) - 1)); }
__device__ __forceinline__ bool puts(const Arcs& a, uint64_t i) {
  return (a.kinds ? a.kinds[a.rows[i] >> a.two] : uint8_t(a.kind)) == kPut;
}

// ---- arcs ------------------------------------------------------------------

struct ArcsParams {
  const uint32_t* from;
  const uint32_t* to;
  const uint8_t* kinds;
  uint64_t* keys;
  Control* control;
  uint32_t n;
  uint32_t bits;
  uint32_t limit;
  uint32_t kind;
  uint32_t two;
  uint32_t loops;
};

// warp_max is the largest of the numbers of a warp.
__device__ __forceinline__ uint32_t warp_max(uint32_t v) {
  for (uint32_t x = kWarp / 2; x != 0; x /= 2) {
    const uint32_t other = shuffle_xor(kAll, v, x);
    if (other > v) v = other;
  }
  return v;
}

// arcs writes the arcs of operations; those that have no place in rows are behind all others.
__device__ __forceinline__ void arcs(const ArcsParams& p) {
  uint32_t end = 0, all = 0;
  const uint64_t dropped = p.bits == 32 ? ~uint64_t(0) : (uint64_t(1) << 2 * p.bits) - 1;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint32_t u = p.from[i], v = p.to[i], larger = u > v ? u : v;
    const bool bad = larger >= p.limit, stays = !bad && (u != v || p.loops);
    if (bad) {
      min_relaxed(&p.control->bad, uint32_t(i));
    } else if (larger >= all) {
      all = larger + 1;
    }
    if (stays && larger >= end && (p.kinds ? p.kinds[i] : uint8_t(p.kind)) == kPut) end = larger + 1;
    p.keys[i << p.two] = stays ? uint64_t(u) << p.bits | v : dropped;
    if (p.two) p.keys[2 * i + 1] = stays && u != v ? uint64_t(v) << p.bits | u : dropped;
  }
  end = warp_max(end);
  all = warp_max(all);
  if (lane_index() == 0 && end != 0) max_relaxed(&p.control->end, end);
  if (lane_index() == 0 && all != 0) max_relaxed(&p.control->all, all);
}

// ---- settle ----------------------------------------------------------------

// tally writes which arcs are deleted: the sum of these tells whether an arc of a multigraph is deleted again further on.
__device__ __forceinline__ void tally(const Arcs& a) {
  for (uint64_t i = thread_index(); i < a.n; i += threads_in_grid()) a.deltas[i] = !puts(a, i);
}

struct SettleParams {
  Graph graph;
  Arcs arcs;
  const uint32_t* deletions;  // before each arc; null: of a batch of one kind, or not of a multigraph
  uint8_t* ok;                // may be null
};

// Fate is what becomes of an edge, and whether the operation did something.
struct Fate {
  bool done;
  uint8_t net;
  uint32_t at;
  uint32_t delta;
};

// fate finds that of an arc: an operation finds what the one before left, the first what was there.
template <int Bits>
__device__ __forceinline__ Fate fate(const SettleParams& p, const Row<Bits>& old, uint64_t i) {
  const Arcs& a = p.arcs;
  Fate f = {false, kStays, 0, 0};
  const bool head = i == 0 || a.keys[i - 1] != a.keys[i], tail = i + 1 == a.n || a.keys[i + 1] != a.keys[i];
  const bool was = (head || tail) && find_edge(old, target_of(a, i), f.at);
  const bool is = puts(a, i);
  f.done = is != (head ? was : puts(a, i - 1));
  if (tail && is != was) {
    f.net = is ? kAdded : kRemoved;
    f.delta = is ? 1 : ~0u;
  } else if (tail && is && Shape<Bits>::weighted) {
    f.net = kUpdated;
  }
  return f;
}

// fate_among is fate in a multigraph.
template <int Bits>
__device__ __forceinline__ Fate fate_among(const SettleParams& p, const Row<Bits>& old, uint64_t i) {
  const Arcs& a = p.arcs;
  const uint64_t key = a.keys[i], end = i + upper_bound(a.keys + i, a.n - i, key);
  const uint32_t v = target_of(a, i), behind = upper_bound(old.ids, old.degree, v), parallels = behind - lower_bound(old.ids, behind, v);
  const bool head = i == 0 || a.keys[i - 1] != key, is = puts(a, i);
  const auto deleted = [&](uint64_t from) { return p.deletions ? p.deletions[end] != p.deletions[from] : !is; };
  Fate f = {is || (head ? parallels != 0 : puts(a, i - 1)), kStays, behind, 0};
  if (head && parallels != 0 && deleted(i)) {
    f.net = kRemoved;
    f.delta = 0 - parallels;
  } else if (is && !deleted(i + 1)) {
    f.net = kAdded;
    f.delta = 1;
  }
  return f;
}

// settle decides what becomes of each edge, and what its operations return.
template <int Bits>
__device__ __forceinline__ void settle(const SettleParams& p) {
  const Arcs& a = p.arcs;
  uint64_t changed = 0;
  const uint32_t last = uint32_t((uint64_t(1) << a.bits) - 1);
  for (uint64_t i = thread_index(); i < a.n; i += threads_in_grid()) {
    const uint32_t u = source_of(a, i), operation = a.rows[i] >> a.two;
    const bool own = !(a.rows[i] & a.two);
    Fate f = {false, kStays, 0, 0};
    if (u != last) {
      const Row<Bits> old = row<Bits>(p.graph, u);
      f = a.multi ? fate_among(p, old, i) : fate(p, old, i);
      if (u == target_of(a, i) && f.delta != 0) add_relaxed(&a.control->loops, f.delta);
    }
    if (own && p.ok) p.ok[operation] = f.done;
    changed += own && f.done;
    a.sources[i] = u != last ? u : kNone;
    a.places[i] = f.at;
    a.nets[i] = f.net;
    a.deltas[i] = f.delta;
  }
  inorder::add_up(&a.control->changed, changed);
}

// ---- plan ------------------------------------------------------------------

// Rows is what becomes of the rows of a batch's vertices, one segment of its arcs each.
struct Rows {
  const uint32_t* firsts;   // arcs; behind the last, how many there are
  const uint32_t* vertices;
  const uint32_t* shifts;   // of each arc: sum of the deltas before
  uint32_t* degrees;        // before
  uint32_t* classes;        // of new blocks; kNoClass where there is no segment
  uint32_t* olds;           // of the blocks before, kLimbo more for those that go to snapshots
  uint32_t* blocks;         // new ones
  uint32_t* records;        // new ones
};

constexpr uint32_t kLimbo = 128;
constexpr uint32_t kNoClass = 255;

struct PlanParams {
  Graph graph;
  Arcs arcs;
  Rows rows;
  uint32_t held;    // there are snapshots
  uint32_t newest;  // of them
};

__device__ __forceinline__ uint32_t degree_then(const Rows& r, uint32_t i) {
  return r.degrees[i] + r.shifts[r.firsts[i + 1]] - r.shifts[r.firsts[i]];
}

// plan finds the class of each new row, and where the block of the old one goes.
template <int Bits>
__device__ __forceinline__ void plan(const PlanParams& p) {
  const uint32_t segments = p.arcs.control->segments;
  if (thread_index() == 0) p.arcs.control->arcs = p.rows.shifts[p.arcs.n];
  for (uint64_t i = thread_index(); i < p.arcs.n; i += threads_in_grid()) {
    uint32_t c = kNoClass, old = kNoClass, degree = 0;
    const uint32_t u = i < segments ? p.rows.vertices[i] : kNone;
    if (u != kNone) {
      if (u < p.graph.vertices) {
        const uint32_t* record = record_of(p.graph, u);
        degree = record[kDegree];
        old = record[kClass];
        if (old != 0 && p.held && record[kBorn] <= p.newest) old += kLimbo;
      }
      c = class_of<Bits>(degree + p.rows.shifts[p.rows.firsts[i + 1]] - p.rows.shifts[p.rows.firsts[i]]);
    }
    p.rows.degrees[i] = degree;
    p.rows.classes[i] = c;
    p.rows.olds[i] = old;
  }
}

// ---- blocks ----------------------------------------------------------------

// Stack is the free blocks of a class, and where new ones of a batch come from: block r is number top-1-r of the stack as long
// as r is less than taken, and then from a unit on, one behind the other.
struct Stack {
  uint32_t* at;
  uint32_t top;
  uint32_t taken;
  uint32_t base;
  uint32_t unused;
};

// Sorted is segments by a class, stably: where each class begins, and the segments.
struct Sorted {
  const uint32_t* firsts;
  const uint32_t* classes;
  const uint32_t* segments;
};

struct PlaceParams {
  Sorted sorted;
  const Stack* stacks;
  uint32_t* blocks;
  uint32_t n;
  uint32_t unused;
};

// place gives rows their blocks.
__device__ __forceinline__ void place(const PlaceParams& p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint32_t c = p.sorted.classes[i];
    if (c == 0 || c >= kClasses) continue;
    const Stack s = p.stacks[c];
    const uint32_t r = uint32_t(i) - p.sorted.firsts[c];
    p.blocks[p.sorted.segments[i]] = r < s.taken ? s.at[s.top - 1 - r] : s.base + (r - s.taken) * units_of(c);
  }
}

// Ghost is a block that only snapshots have.
struct Ghost {
  uint32_t block;
  uint32_t size;  // its class
  uint32_t born;
  uint32_t died;
};

struct ReleaseParams {
  Graph graph;
  Sorted sorted;
  Rows rows;
  const Stack* stacks;
  Ghost* ghosts;
  uint32_t n;
  uint32_t epoch;
};

// release frees the blocks that rows had, or leaves them to snapshots.
__device__ __forceinline__ void release(const ReleaseParams& p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint32_t c = p.sorted.classes[i];
    if (c == 0 || c == kNoClass) continue;
    const uint32_t* record = record_of(p.graph, p.rows.vertices[p.sorted.segments[i]]);
    if (c > kLimbo) {
      p.ghosts[uint32_t(i) - p.sorted.firsts[kLimbo]] = {record[kBlockUnit], record[kClass], record[kBorn], p.epoch};
    } else {
      const Stack s = p.stacks[c];
      s.at[s.top - s.taken + uint32_t(i) - p.sorted.firsts[c]] = record[kBlockUnit];
    }
  }
}

// ---- rows ------------------------------------------------------------------

struct WriteParams {
  Graph graph;
  Arcs arcs;
  Rows rows;
  const uint64_t* olds;  // where the old rows of segments would begin, side by side
  const void* weights;   // of operations
  uint64_t* present;     // vertices that are there
  uint32_t segments;
  uint32_t epoch;
};

// new_row is the row of a segment to be.
template <int Bits>
__device__ __forceinline__ Row<Bits> new_row(const WriteParams& p, uint32_t segment) {
  const uint32_t c = p.rows.classes[segment];
  if (c == 0) return record_row<Bits>(p.rows.records + uint64_t(segment) * kRecordWords);
  return block<Bits>(p.graph, p.rows.blocks[segment], c);
}

// keep copies what stays of old rows. Other weights of edges come by enter, the next launch.
template <int Bits>
__device__ __forceinline__ void keep(const WriteParams& p) {
  for_each_element(p.olds, p.segments, [&](uint32_t segment, uint64_t i) {
    const Row<Bits> old = row<Bits>(p.graph, p.rows.vertices[segment]), to = new_row<Bits>(p, segment);
    const uint32_t first = p.rows.firsts[segment], end = p.rows.firsts[segment + 1], v = old.ids[i];
    const uint64_t key = uint64_t(p.rows.vertices[segment]) << p.arcs.bits | v;
    const uint32_t at = first + lower_bound(p.arcs.keys + first, end - first, key);
    if (at < end && p.arcs.keys[at] == key) {
      const uint32_t says = p.arcs.multi ? at : at + upper_bound(p.arcs.keys + at, end - at, key) - 1;
      if (p.arcs.nets[says] == kRemoved) return;
    }
    const uint32_t then = uint32_t(i) + p.rows.shifts[at] - p.rows.shifts[first];
    to.ids[then] = v;
    if constexpr (Shape<Bits>::weighted) to.weights[then] = old.weights[i];
  });
}

// enliven notes that there is a vertex, and returns whether there was none.
__device__ __forceinline__ uint32_t enliven(const Graph& g, uint32_t u) {
  uint32_t* word = g.alive + u / 32;
  const uint32_t bit = 1u << u % 32;
  return !(load_relaxed(word) & bit) && !(or_relaxed(word, bit) & bit);
}

// enter writes new neighbors and weights to new rows.
template <int Bits>
__device__ __forceinline__ void enter(const WriteParams& p) {
  using W = typename Shape<Bits>::W;
  uint64_t fresh = 0;
  for_each_element(p.rows.firsts, p.segments, [&](uint32_t segment, uint64_t k) {
    const uint32_t first = p.rows.firsts[segment], i = first + uint32_t(k);
    const uint8_t net = p.arcs.nets[i];
    if (net != kAdded && net != kUpdated) return;
    const Row<Bits> to = new_row<Bits>(p, segment);
    const uint32_t u = p.rows.vertices[segment], v = target_of(p.arcs, i);
    const uint32_t then = p.arcs.places[i] + p.rows.shifts[i] - p.rows.shifts[first];
    if constexpr (Shape<Bits>::weighted) to.weights[then] = static_cast<const W*>(p.weights)[p.arcs.rows[i] >> p.arcs.two];
    if (net != kAdded) return;
    to.ids[then] = v;
    fresh += enliven(p.graph, u) + enliven(p.graph, v);
  });
  inorder::add_up(p.present, fresh);
}

// commit makes new records those of the graph.
template <int Bits>
__device__ __forceinline__ void commit(const WriteParams& p) {
  for (uint64_t i = thread_index(); i < p.segments; i += threads_in_grid()) {
    const uint32_t u = p.rows.vertices[i];
    if (u >= p.graph.vertices) continue;  // nothing was deleted from what is not there
    const uint32_t degree = degree_then(p.rows, uint32_t(i)), c = p.rows.classes[i];
    uint32_t* record = record_of(p.graph, u);
    const uint32_t* now = p.rows.records + i * kRecordWords;
    record[kDegree] = degree;
    record[kClass] = c;
    for (uint32_t w = kInline; w < kRecordWords; w++) {
      const uint32_t id = w - kInline, of = (w - Shape<Bits>::inline_weights) * 4;
      const bool used = w < Shape<Bits>::inline_weights ? id < degree : of < degree * (Shape<Bits>::entry - 4);
      record[w] = c == 0 && used ? now[w] : 0;
    }
    if (c != 0) {
      record[kBlockUnit] = p.rows.blocks[i];
      record[kBorn] = p.epoch;
    }
  }
}

}  // namespace weft::graph
