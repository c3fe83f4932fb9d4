// How the rows of a batch are written (package graph, gpuchange.go), once graph_change.cuh has planned them: to other blocks, so that every entry of an old row and
// every new one finds its place by itself.
#pragma once

#include "graph_change.cuh"

namespace weft::graph {

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

// Sorted is segments by a group, stably: where each group begins, the groups, and the segments.
struct Sorted {
  const uint32_t* firsts;
  const uint32_t* groups;
  const uint32_t* segments;
};

struct PlaceParams {
  Sorted sorted;
  const Stack* stacks;
  uint32_t* blocks;
  uint32_t* slots;
  uint32_t most;  // segments there might have been
  uint32_t unused;
};

// new_block is the block that number r gets of those that need one of a class.
__device__ __forceinline__ uint32_t new_block(const Stack* stacks, uint32_t c, uint32_t r) {
  const Stack s = stacks[c];
  return r < s.taken ? s.at[s.top - 1 - r] : s.base + (r - s.taken) * units_of(c);
}

// place gives rows their blocks, and numbers those that they had.
__device__ __forceinline__ void place(const PlaceParams& p) {
  for (uint64_t i = thread_index(); i < p.sorted.firsts[kNoBlock]; i += threads_in_grid()) {
    const uint32_t group = p.sorted.groups[i], segment = p.sorted.segments[i], r = uint32_t(i) - p.sorted.firsts[group];
    if (group < kClasses) {
      p.blocks[segment] = new_block(p.stacks, group, r);
    } else {
      p.slots[segment - p.most] = r;
    }
  }
}

// Ghost is a block that only snapshots have.
struct Ghost {
  uint32_t block;
  uint32_t size;  // its class
  uint32_t born;
  uint32_t died;
};

struct WriteParams {
  Graph graph;
  Arcs arcs;
  Rows rows;
  const Stack* stacks;
  Ghost* ghosts;
  const void* weights;   // of operations
  uint64_t* present;     // vertices that are there
  uint32_t segments;
  uint32_t most;         // segments there might have been
  uint32_t epoch;
  uint32_t directed;
};

// release frees the block that a row had, or leaves it to snapshots.
__device__ __forceinline__ void release(const WriteParams& p, uint32_t i, const uint32_t* record) {
  const uint32_t group = p.rows.groups[p.most + i];
  if (group == kNoBlock) return;
  if (group == kLimbo) {
    p.ghosts[p.rows.slots[i]] = {record[kBlockUnit], record[kClass], record[kBorn], p.epoch};
  } else {
    const Stack s = p.stacks[group - kOld];
    s.at[s.top - s.taken + p.rows.slots[i]] = record[kBlockUnit];
  }
}

// ---- rows ------------------------------------------------------------------

// new_row is the row of a segment to be.
template <int Bits>
__device__ __forceinline__ Row<Bits> new_row(const WriteParams& p, uint32_t segment) {
  const uint32_t c = p.rows.groups[segment];
  if (c == kNoBlock) return record_row<Bits>(p.rows.records + uint64_t(segment) * kRecordWords);
  return block<Bits>(p.graph, p.rows.blocks[segment], c);
}

// find_arcs finds for each key the first arc that is not less, among those of a row from at to end.
__device__ __forceinline__ void find_arcs(const Arcs& a, const uint64_t (&key)[kAhead], uint32_t (&at)[kAhead], const uint32_t (&end)[kAhead]) {
  uint32_t left[kAhead], most = 0;
#pragma unroll
  for (uint32_t k = 0; k < kAhead; k++) left[k] = end[k] - at[k], most |= left[k];
  while (most != 0) {
    most = 0;
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++) {
      if (left[k] == 0) continue;
      const uint32_t half = left[k] / 2;
      const bool less = a.keys[at[k] + half] < key[k];
      at[k] += less ? half + 1 : 0;
      left[k] = less ? left[k] - half - 1 : half;
      most |= left[k];
    }
  }
}

// keep copies what stays of old rows.
template <int Bits>
__device__ __forceinline__ void keep(const WriteParams& p) {
  const Arcs& a = p.arcs;
  for_each_elements(p.rows.olds, p.segments, [&](const Elements& e) {
    Row<Bits> old[kAhead];
    uint32_t first[kAhead], at[kAhead], end[kAhead];
    uint64_t key[kAhead];
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++) {
      first[k] = end[k] = 0;
      if (e.row[k] == kNoRow) continue;
      const uint32_t u = p.rows.vertices[e.row[k]];
      old[k] = row<Bits>(p.graph, u);
      first[k] = p.rows.firsts[e.row[k]], end[k] = p.rows.firsts[e.row[k] + 1];
      key[k] = uint64_t(u) << a.bits;
    }
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++) {
      at[k] = first[k];
      if (end[k] != 0) key[k] |= old[k].ids[e.at[k]];
    }
    find_arcs(a, key, at, end);
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++) {
      if (end[k] == 0) continue;
      uint8_t net = kStays;
      if (at[k] < end[k] && a.keys[at[k]] == key[k]) {
        net = a.nets[a.multi ? at[k] : at[k] + upper_bound(a.keys + at[k], end[k] - at[k], key[k]) - 1];
      }
      const uint32_t shift = p.rows.shifts[first[k]];
      const bool none = p.rows.shifts[end[k]] - shift == 0 - old[k].degree;  // nothing stays
      if (net == kRemoved || none) continue;
      const uint32_t then = uint32_t(e.at[k]) + p.rows.shifts[at[k]] - shift;
      const Row<Bits> to = new_row<Bits>(p, e.row[k]);
      to.ids[then] = target(a, key[k]);
      if constexpr (Shape<Bits>::weighted) {
        if (net != kUpdated) to.weights[then] = old[k].weights[e.at[k]];
      }
    }
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
  const Arcs& a = p.arcs;
  uint64_t fresh = 0;
  for (uint64_t i = thread_index(); i < a.n; i += threads_in_grid()) {
    const uint8_t net = a.nets[i];
    if (net != kAdded && net != kUpdated) continue;
    const uint32_t segment = a.segments[i], v = target_of(a, i), then = a.places[i] + p.rows.shifts[i] - p.rows.shifts[p.rows.firsts[segment]];
    const Row<Bits> to = new_row<Bits>(p, segment);
    if constexpr (Shape<Bits>::weighted) to.weights[then] = static_cast<const W*>(p.weights)[a.rows[i] >> a.two];
    if (net != kAdded) continue;
    to.ids[then] = v;
    if (p.directed) fresh += enliven(p.graph, v);  // in an undirected graph it has a row that has become longer, too
  }
  add_up(p.present, fresh);
}

// write writes rows anew, to other blocks. Every entry, of an old row or new, finds its place by itself.
template <int Bits>
__device__ __forceinline__ void write(const WriteParams& p) {
  keep<Bits>(p);
  enter<Bits>(p);
}

// commit makes new records those of the graph, and frees blocks. What has neighbors is there.
template <int Bits>
__device__ __forceinline__ void commit(const WriteParams& p) {
  uint64_t fresh = 0;
  for (uint64_t i = thread_index(); i < p.segments; i += threads_in_grid()) {
    const uint32_t u = p.rows.vertices[i];
    if (u >= p.graph.vertices) continue;  // nothing was deleted from what is not there
    const uint32_t degree = degree_then(p.rows, uint32_t(i)), group = p.rows.groups[i], c = group == kNoBlock ? 0 : group;
    const uint32_t* now = p.rows.records + i * kRecordWords;
    uint32_t words[kRecordWords] = {degree, c};
#pragma unroll
    for (uint32_t w = kInline; w < kRecordWords; w++) {
      const uint32_t id = w - kInline, of = (w - Shape<Bits>::inline_weights) * 4;
      const bool used = w < Shape<Bits>::inline_weights ? id < degree : of < degree * (Shape<Bits>::entry - 4);
      words[w] = c == 0 && used ? now[w] : 0;
    }
    if (c != 0) {
      words[kBlockUnit] = p.rows.blocks[i];
      words[kBorn] = p.epoch;
    }
    release(p, uint32_t(i), record_of(p.graph, u));
    Word128* record = reinterpret_cast<Word128*>(record_of(p.graph, u));
#pragma unroll
    for (uint32_t w = 0; w < 2; w++) record[w] = {words[4 * w] | uint64_t(words[4 * w + 1]) << 32, words[4 * w + 2] | uint64_t(words[4 * w + 3]) << 32};
    if (degree != 0) fresh += enliven(p.graph, u);
  }
  add_up(p.present, fresh);
}

}  // namespace weft::graph
