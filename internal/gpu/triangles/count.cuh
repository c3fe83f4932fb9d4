// Counts the triangles of an oriented view. A triangle is a wedge u→v, v→w that an edge u→w closes.
#pragma once

#include "rows.cuh"
#include "tuning.cuh"

namespace weft::triangles {

struct CountParams {
  Rows graph;  // oriented view; a row has at most 65535 arcs
  uint64_t* total;  // the kernels add the number of triangles
  uint64_t* tasks;  // tasks for blocks: vertex, first arc in its row, number of arcs; see task
  uint32_t* used;   // number of tasks
  uint32_t* next;   // next chunk of vertices
  uint32_t grab;    // chunks that a warp takes at a time
  uint32_t unused;
};

constexpr uint32_t kEmpty = ~0u;  // no vertex

__device__ __forceinline__ uint64_t task(uint32_t u, uint32_t first, uint32_t n) { return uint64_t(u) << 32 | first << 16 | n; }

// Table is a hash set of numbers in shared memory. It uses linear probing. The number of slots is a
// power of two.
struct Table {
  Shared<uint32_t> slots;
  uint32_t shift;  // 32 minus the bits of a slot number

  __device__ __forceinline__ uint32_t mask() const { return ~0u >> shift; }
  __device__ __forceinline__ uint32_t home(uint32_t x) const { return x * 0x9e3779b9u >> shift; }

  __device__ __forceinline__ void put(uint32_t x) const {
    uint32_t at = home(x);
    while (cas_relaxed(slots + at, kEmpty, x) != kEmpty) at = (at + 1) & mask();
  }

  __device__ __forceinline__ bool has(uint32_t x) const {
    for (uint32_t at = home(x);; at = (at + 1) & mask()) {
      const uint32_t there = load_weak(slots + at);
      if (there == x || there == kEmpty) return there == x;
    }
  }
};

// table_for returns a table for n numbers with a load of at most a quarter. The table is empty
// after all threads have returned.
__device__ __forceinline__ Table table_for(Shared<uint32_t> slots, uint32_t n, uint32_t rank, uint32_t threads) {
  const uint32_t bits = highest(2 * n - 1) + 2;
  for (uint32_t i = rank; i < 1u << bits; i += threads) store_weak(slots + i, kEmpty);
  return {slots, 32 - bits};
}

// wedges calls f(w) for the neighbors w of one vertex per lane. The row of this lane's vertex
// begins at begin and has n arcs.
template <class F>
__device__ __forceinline__ void wedges(const Rows& g, uint32_t begin, uint32_t n, F f) {
  const uint32_t lane = lane_index(), sum = running(n), all = shuffle(kAll, sum, kWarp - 1);
  if (all < kFull) {
    const uint32_t first = begin - (sum - n);
    for (uint32_t t = lane; t - lane < all; t += kWarp) {
      const uint32_t from = owner(sum, t < all ? t : 0);
      const uint32_t at = shuffle(kAll, first, from) + t;
      if (t < all) f(g.neighbors[at]);
    }
    return;
  }
  for (uint32_t left = ballot(kAll, n != 0); left != 0; left &= left - 1) {
    const uint32_t from = lowest(left), at = shuffle(kAll, begin, from), end = at + shuffle(kAll, n, from);
    for (uint32_t i = at + lane; i < end; i += kWarp) f(g.neighbors[i]);
  }
}

// count_short counts the triangles of the vertices in a chunk that have short rows. Lane i has the
// row of vertex i, or no row.
__device__ __forceinline__ uint64_t count_short(const Rows& g, uint32_t begin, uint32_t n) {
  const uint32_t lane = lane_index(), sum = running(n), arcs = shuffle(kAll, sum, kWarp - 1), first = begin - (sum - n);
  uint64_t closed = 0;
  for (uint32_t t = lane; t - lane < arcs; t += kWarp) {
    const uint32_t from = owner(sum, t < arcs ? t : 0);
    const uint32_t at = shuffle(kAll, first, from) + t;
    const uint32_t row = shuffle(kAll, begin, from), length = shuffle(kAll, n, from);
    uint32_t next = 0, count = 0;
    if (t < arcs) {
      const uint32_t v = g.neighbors[at];
      next = begin_of(g, v), count = degree_of(g, v);
    }
    // Each lane now has an arc. The loop distributes the wedges over these arcs to the lanes.
    const uint32_t wedges = running(count), all = shuffle(kAll, wedges, kWarp - 1), start = next - (wedges - count);
    for (uint32_t i = lane; i - lane < all; i += kWarp) {
      const uint32_t arc = owner(wedges, i < all ? i : 0);
      const uint32_t w = shuffle(kAll, start, arc) + i, of = shuffle(kAll, row, arc), many = shuffle(kAll, length, arc);
      if (i < all && has(g.neighbors + of, many, g.neighbors[w])) closed++;
    }
  }
  return closed;
}

// leave appends tasks with arcs [first, first+n) of a row, which blocks run later.
__device__ __forceinline__ void leave(const CountParams& p, uint32_t u, uint32_t first, uint32_t n) {
  const uint32_t tasks = (n + kTask - 1) / kTask;
  uint32_t at = 0;
  if (lane_index() == 0) at = add_relaxed(p.used, tasks);
  at = shuffle(kAll, at, 0);
  for (uint32_t i = lane_index(); i < tasks; i += kWarp) {
    const uint32_t rest = n - i * kTask;
    p.tasks[at + i] = task(u, first + i * kTask, rest < kTask ? rest : kTask);
  }
}

// count_row counts the triangles of one vertex. The warp hashes the row of the vertex.
__device__ __forceinline__ uint64_t count_row(const CountParams& p, uint32_t u, uint32_t begin, uint32_t n, Shared<uint32_t> slots) {
  const uint32_t lane = lane_index();
  const uint32_t* row = p.graph.neighbors + begin;
  const Table t = table_for(slots, n, lane, kWarp);
  sync_warp();
  for (uint32_t i = lane; i < n; i += kWarp) t.put(row[i]);
  sync_warp();
  uint64_t closed = 0;
  for (uint32_t first = 0; first < n; first += kWarp) {
    uint32_t next = 0, count = 0;
    if (first + lane < n) {
      const uint32_t v = row[first + lane];
      next = begin_of(p.graph, v), count = degree_of(p.graph, v);
    }
    if (shuffle(kAll, running(count), kWarp - 1) > kMaxWarpWedges) {
      leave(p, u, first, n - first < kWarp ? n - first : kWarp);
    } else {
      wedges(p.graph, next, count, [&](uint32_t w) { closed += t.has(w); });
    }
  }
  sync_warp();
  return closed;
}

// count_rows counts the triangles of all vertices. A warp takes chunks of vertices, and leaves
// tasks that are too large for a warp to blocks.
__device__ __forceinline__ void count_rows(const CountParams& p) {
  __shared__ uint32_t memory[kWarps][kSlots];
  const Shared<uint32_t> slots = shared(&memory[thread_in_block() / kWarp][0]);
  const uint32_t lane = lane_index(), chunks = (p.graph.vertices - 1) / kChunk + 1;
  uint64_t closed = 0;
  for (;;) {
    uint32_t chunk = 0;
    if (lane == 0) chunk = add_relaxed(p.next, p.grab);
    chunk = shuffle(kAll, chunk, 0);
    if (chunk >= chunks) break;
    for (const uint32_t end = chunks - chunk < p.grab ? chunks : chunk + p.grab; chunk < end; chunk++) {
      const uint32_t u = chunk * kChunk + lane;
      uint32_t begin = 0, n = 0;
      if (lane < kChunk && u < p.graph.vertices) begin = begin_of(p.graph, u), n = degree_of(p.graph, u);
      closed += count_short(p.graph, begin, n > 1 && n < kMinHashedRow ? n : 0);
      for (uint32_t left = ballot(kAll, n >= kMinHashedRow); left != 0; left &= left - 1) {
        const uint32_t from = lowest(left), row = shuffle(kAll, begin, from), length = shuffle(kAll, n, from), v = chunk * kChunk + from;
        if (length > kMaxWarpRow) {
          leave(p, v, 0, length);
        } else {
          closed += count_row(p, v, row, length, slots);
        }
      }
    }
  }
  add_warp_sum(p.total, closed);
}

// count_task counts the triangles of some arcs of a row. The block hashes the row in pieces that
// fit in shared memory.
__device__ __forceinline__ uint64_t count_task(const CountParams& p, uint64_t task, Shared<uint32_t> slots) {
  const uint32_t u = uint32_t(task >> 32), first = uint32_t(task) >> 16, arcs = uint32_t(task) & 0xffff;
  const uint32_t* row = p.graph.neighbors + begin_of(p.graph, u);
  const uint32_t n = degree_of(p.graph, u), rank = thread_in_block(), piece = kHubSlots / 4;
  // Arcs are distributed to warps round-robin. A task is small enough that each lane has at most
  // one arc.
  const uint32_t mine = lane_index() * kWarps + rank / kWarp;
  uint32_t next = 0, count = 0;
  if (mine < arcs) {
    const uint32_t v = row[first + mine];
    next = begin_of(p.graph, v), count = degree_of(p.graph, v);
  }
  uint64_t closed = 0;
  for (uint32_t at = 0; at < n; at += piece) {
    const uint32_t some = n - at < piece ? n - at : piece;
    const Table t = table_for(slots, some, rank, kThreads);
    sync_block();
    for (uint32_t i = rank; i < some; i += kThreads) t.put(row[at + i]);
    sync_block();
    wedges(p.graph, next, count, [&](uint32_t w) { closed += t.has(w); });
    sync_block();
  }
  return closed;
}

// count_hubs counts the triangles of the tasks that count_rows has left to blocks.
__device__ __forceinline__ void count_hubs(const CountParams& p) {
  __shared__ uint32_t memory[kHubSlots];
  uint64_t closed = 0;
  for (uint32_t i = block_index(), n = *p.used; i < n; i += blocks_in_grid()) closed += count_task(p, p.tasks[i], shared(&memory[0]));
  add_warp_sum(p.total, closed);
}

}  // namespace weft::triangles
