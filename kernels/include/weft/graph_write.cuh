// Writes the rows of a batch (package graph, gpu_change.go), after graph_change.cuh has planned
// them. Rows are written to other blocks, so every old and every new entry finds its place
// independently.
#pragma once

#include "graph_change.cuh"

namespace weft::graph {

// ---- blocks ----------------------------------------------------------------

// Stack holds the free blocks of a class, and describes where a batch finds its new blocks. New
// block r is entry top-1-r of the stack if r is less than taken. The other new blocks lie one after
// the other, from unit `base` on.
struct Stack {
  uint32_t* at;
  uint32_t top;
  uint32_t taken;
  uint32_t base;
  uint32_t unused;
};

// Sorted holds segments, sorted stably by the group of their blocks. firsts has the index at which
// each group begins. For each index, groups has the group and segments has the segment. For old
// blocks, PlaceParams::most is added to the number of the segment.
struct Sorted {
  const uint32_t* firsts;
  const uint32_t* groups;
  const uint32_t* segments;
};

struct PlaceParams {
  Graph graph;
  Sorted sorted;
  const Stack* stacks;
  uint32_t* blocks;
  uint32_t* slots;
  Move* moves;    // null: no rows are moved
  uint32_t most;  // maximum number of segments
  uint32_t unused;
};

// new_block returns new block number r of class c.
__device__ __forceinline__ uint32_t new_block(const Stack* stacks, uint32_t c, uint32_t r) {
  const Stack s = stacks[c];
  return r < s.taken ? s.at[s.top - 1 - r] : s.base + (r - s.taken) * units_of(c);
}

// set_block stores the new block of a segment.
__device__ __forceinline__ void set_block(const Graph& g, uint32_t* blocks, Move* moves, uint32_t segment, uint32_t block) {
  blocks[segment] = block;
  if (moves) moves[segment].to = reinterpret_cast<uint32_t*>(g.pool + uint64_t(block) * g.unit);
}

// place assigns new blocks to segments, and numbers the old blocks of each group.
__device__ __forceinline__ void place(const PlaceParams& p) {
  for (uint64_t i = thread_index(); i < p.sorted.firsts[kNoBlock]; i += threads_in_grid()) {
    const uint32_t group = p.sorted.groups[i], segment = p.sorted.segments[i], r = uint32_t(i) - p.sorted.firsts[group];
    if (group < kClasses) {
      set_block(p.graph, p.blocks, p.moves, segment, new_block(p.stacks, group, r));
    } else {
      p.slots[segment - p.most] = r;
    }
  }
}

// Ghost is a retired block: only snapshots use it.
struct Ghost {
  uint32_t block;
  uint32_t size;  // class
  uint32_t born;
  uint32_t died;
};

struct WriteParams {
  Graph graph;
  Arcs arcs;
  Rows rows;
  const Stack* stacks;
  Ghost* ghosts;
  const void* weights;   // weights of operations
  uint64_t* present;     // number of present vertices
  uint32_t segments;
  uint32_t most;         // maximum number of segments
  uint32_t epoch;
  uint32_t directed;
};

// release frees the old block of a row, or retires it if a snapshot uses it.
__device__ __forceinline__ void release(const WriteParams& p, uint32_t i, const uint32_t* record) {
  const uint32_t group = p.rows.groups[p.most + i];
  if (group == kNoBlock) return;
  if (group == kRetired) {
    p.ghosts[p.rows.slots[i]] = {record[kBlockUnit], record[kClass], record[kCreated], p.epoch};
  } else {
    const Stack s = p.stacks[group - kOld];
    s.at[s.top - s.taken + p.rows.slots[i]] = record[kBlockUnit];
  }
}

// ---- rows ------------------------------------------------------------------

// weights_at returns the weights of a row, from the address of its ids and the class of its block.
template <int Bits>
__device__ __forceinline__ typename Shape<Bits>::W* weights_at(uint32_t* ids, uint32_t c) {
  const uint32_t words = c != 0 ? units_of(c) * kUnitEntries : Shape<Bits>::inline_weights - kInline;
  return reinterpret_cast<typename Shape<Bits>::W*>(ids + words);
}

// find_arcs advances each at[k] to the first arc in [at[k],end[k]) with a target that is not less
// than id[k]. If no arc has such a target, at[k] becomes end[k].
template <class Target>
__device__ __forceinline__ void find_arcs(Target target, const uint32_t (&id)[kInFlight], uint32_t (&at)[kInFlight], const uint32_t (&end)[kInFlight]) {
  uint32_t left[kInFlight], most = 0;
#pragma unroll
  for (uint32_t k = 0; k < kInFlight; k++) left[k] = end[k] - at[k], most |= left[k];
  while (most != 0) {
    most = 0;
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) {
      if (left[k] == 0) continue;
      const uint32_t half = left[k] / 2;
      const bool less = target(at[k] + half) < id[k];
      at[k] += less ? half + 1 : 0;
      left[k] = less ? left[k] - half - 1 : half;
      most |= left[k];
    }
  }
}

// keep copies the entries that stay from the old rows to the new rows.
template <int Bits>
__device__ __forceinline__ void keep(const WriteParams& p) {
  const Arcs& a = p.arcs;
  for_each_elements(p.rows.olds, p.segments, [&](const Elements& e) {
    uint32_t at[kInFlight], end[kInFlight], id[kInFlight], shift[kInFlight], how[kInFlight];
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) {
      at[k] = end[k] = 0;
      if (e.row[k] == kNoRow) continue;
      const Word128 x = load_weak(reinterpret_cast<const Word128*>(p.rows.moves + e.row[k]) + 1);
      how[k] = uint32_t(x.y >> 32), shift[k] = uint32_t(x.y);
      if (how[k] & kNothingStays) continue;
      at[k] = uint32_t(x.x), end[k] = uint32_t(x.x >> 32);
      id[k] = p.rows.moves[e.row[k]].from[e.at[k]];
    }
    find_arcs([&](uint32_t i) { return target_of(a, i); }, id, at, end);
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) {
      if (end[k] == 0) continue;
      uint8_t net = kStays;
      if (at[k] < end[k] && target_of(a, at[k]) == id[k]) {
        net = a.nets[a.multi ? at[k] : at[k] + upper_bound(a.keys + at[k], end[k] - at[k], a.keys[at[k]]) - 1];
      }
      if (net == kRemoved) continue;
      const uint32_t then = uint32_t(e.at[k]) + p.rows.shifts[at[k]] - shift[k];
      const Move& m = p.rows.moves[e.row[k]];
      m.to[then] = id[k];
      if constexpr (Shape<Bits>::weighted) {
        if (net != kUpdated) weights_at<Bits>(m.to, how[k] >> 8 & 0xff)[then] = weights_at<Bits>(m.from, how[k] & 0xff)[e.at[k]];
      }
    }
  });
}

// mark_present marks a vertex as present, and returns 1 if the vertex was absent.
__device__ __forceinline__ uint32_t mark_present(const Graph& g, uint32_t u) {
  uint32_t* word = g.alive + u / 32;
  const uint32_t bit = 1u << u % 32;
  return !(load_relaxed(word) & bit) && !(or_relaxed(word, bit) & bit);
}

// enter writes added neighbors and changed weights to the new rows.
template <int Bits>
__device__ __forceinline__ void enter(const WriteParams& p) {
  using W = typename Shape<Bits>::W;
  const Arcs& a = p.arcs;
  uint64_t fresh = 0;
  for (uint64_t first = thread_index(); first < a.n; first += kInFlight * threads_in_grid()) {
    uint8_t net[kInFlight];
    uint32_t segment[kInFlight], then[kInFlight], id[kInFlight];
    uint32_t* to[kInFlight];
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) {
      const uint64_t i = first + k * threads_in_grid();
      net[k] = i < a.n ? a.nets[i] : kStays;
      if (net[k] != kAdded && net[k] != kUpdated) continue;
      segment[k] = a.segments[i], id[k] = target_of(a, i), then[k] = a.places[i] + p.rows.shifts[i];
    }
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) {
      if (net[k] != kAdded && net[k] != kUpdated) continue;
      const Move& m = p.rows.moves[segment[k]];
      to[k] = m.to, then[k] -= m.shift;
      if constexpr (Shape<Bits>::weighted) {
        const uint64_t i = first + k * threads_in_grid();
        weights_at<Bits>(m.to, m.how >> 8 & 0xff)[then[k]] = static_cast<const W*>(p.weights)[a.rows[i] >> a.two];
      }
    }
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) {
      if (net[k] != kAdded) continue;
      to[k][then[k]] = id[k];
      // In an undirected graph the row of the target also grows, so commit marks the target.
      if (p.directed) fresh += mark_present(p.graph, id[k]);
    }
  }
  add_warp_sum(p.present, fresh);
}

// write writes the new rows to other blocks. Each entry, old or new, finds its place independently.
template <int Bits>
__device__ __forceinline__ void write(const WriteParams& p) {
  keep<Bits>(p);
  enter<Bits>(p);
}

// commit stores new records in the graph, and releases old blocks. It marks vertices that have
// neighbors as present.
template <int Bits>
__device__ __forceinline__ void commit(const WriteParams& p) {
  uint64_t fresh = 0;
  for (uint64_t i = thread_index(); i < p.segments; i += threads_in_grid()) {
    const uint32_t u = p.rows.vertices[i];
    // deletions from a vertex without a record change nothing
    if (u >= p.graph.vertices) continue;
    const uint32_t degree = p.rows.degrees[i], group = p.rows.groups[i], c = group == kNoBlock ? 0 : group;
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
      words[kCreated] = p.epoch;
    }
    release(p, uint32_t(i), record_of(p.graph, u));
    Word128* record = reinterpret_cast<Word128*>(record_of(p.graph, u));
#pragma unroll
    for (uint32_t w = 0; w < 2; w++) record[w] = {words[4 * w] | uint64_t(words[4 * w + 1]) << 32, words[4 * w + 2] | uint64_t(words[4 * w + 3]) << 32};
    if (degree != 0) fresh += mark_present(p.graph, u);
  }
  add_warp_sum(p.present, fresh);
}

}  // namespace weft::graph
