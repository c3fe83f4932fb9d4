// Rows of a graph, lists of vertices, and the distribution of their arcs to threads.
#pragma once

#include "weft/access.cuh"
#include "weft/sums.cuh"

namespace weft::traversal {

constexpr uint32_t kNone = ~0u;

// Rows is a graph: the neighbors of vertex v are targets[offsets[v]] to targets[offsets[v+1]-1].
struct Rows {
  const uint64_t* offsets;
  const uint32_t* targets;
  uint64_t arcs;
  uint32_t vertices;
  uint32_t unused;
};

__device__ __forceinline__ uint64_t degree(const Rows& g, uint32_t v) { return g.offsets[v + 1] - g.offsets[v]; }

// last returns the last i in [lo,hi) with starts[i] <= x. starts ascend, and starts[lo] <= x.
template <class N>
__device__ __forceinline__ N last(const uint64_t* starts, N lo, N hi, uint64_t x) {
  while (hi - lo > 1) {
    const N mid = lo + (hi - lo) / 2;
    if (starts[mid] <= x) {
      lo = mid;
    } else {
      hi = mid;
    }
  }
  return lo;
}

// Warps are numbered across blocks, so that a small amount of work uses many multiprocessors.
__device__ __forceinline__ uint64_t warp_index() { return uint64_t(thread_in_block() / kWarp) * blocks_in_grid() + block_index(); }
__device__ __forceinline__ uint64_t warps_in_grid() { return threads_in_grid() / kWarp; }

// add_up_block is add_warp_sum over all threads of a block, with a single atomic. All threads of
// the block must call it.
__device__ __forceinline__ void add_up_block(uint64_t* to, uint64_t n) {
  __shared__ uint64_t sum;
  const Shared<uint64_t> all = shared(&sum);
  if (thread_in_block() == 0) store_weak(all, uint64_t(0));
  sync_block();
  for (uint32_t x = kWarp / 2; x != 0; x /= 2) n += shuffle_xor(kAll, n, x);
  if (lane_index() == 0 && n != 0) add_relaxed(all, n);
  sync_block();
  if (thread_in_block() == 0) add_relaxed(to, load_weak(all));
  sync_block();
}

// least_of lowers *to to the smallest n of all lanes of a warp, unless *to is smaller.
__device__ __forceinline__ void least_of(uint64_t* to, uint64_t n) {
  for (uint32_t x = kWarp / 2; x != 0; x /= 2) {
    const uint64_t other = shuffle_xor(kAll, n, x);
    n = other < n ? other : n;
  }
  if (lane_index() == 0 && n < load_relaxed(to)) min_relaxed(to, n);
}

// Frontier is a list of vertices. Their arcs are numbered in the order of the list, and starts has
// the number of each vertex's first arc. *size has the number of vertices in its upper bits, and
// the number of arcs in its lower kArcBits bits. So one atomic reserves space for both.
struct Frontier {
  uint32_t* list;
  uint64_t* starts;
  uint64_t* size;
};

constexpr uint32_t kArcBits = 34;

__device__ __forceinline__ uint64_t one(uint64_t arcs) { return uint64_t(1) << kArcBits | arcs; }
__device__ __forceinline__ uint32_t vertices_of(uint64_t size) { return uint32_t(size >> kArcBits); }
__device__ __forceinline__ uint64_t arcs_of(uint64_t size) { return size & ((uint64_t(1) << kArcBits) - 1); }

// append appends the vertices of the lanes with has = true. The whole warp must call it.
__device__ __forceinline__ void append(const Frontier& f, bool has, uint32_t v, uint64_t arcs) {
  if (ballot(kAll, has) == 0) return;
  const uint64_t mine = has ? one(arcs) : 0;
  const uint64_t upto = running(mine);
  uint64_t base = 0;
  if (lane_index() == kWarp - 1) base = add_relaxed(f.size, upto);
  const uint64_t at = shuffle(kAll, base, kWarp - 1) + upto - mine;
  if (has) {
    f.list[vertices_of(at)] = v;
    f.starts[vertices_of(at)] = arcs_of(at);
  }
}

// last_warp is last over [0,n) for a whole warp, with the same x in all lanes. Each lane probes a
// different index, so two or three probes suffice.
__device__ __forceinline__ uint32_t last_warp(const uint64_t* starts, uint32_t n, uint64_t x) {
  uint32_t lo = 0;
  while (n > 1) {
    const uint32_t step = (n + kWarp - 1) / kWarp, at = lane_index() * step;
    const uint32_t skip = (popcount(ballot(kAll, at < n && starts[lo + at] <= x)) - 1) * step;
    lo += skip;
    n = n - skip < step ? n - skip : step;
  }
  return lo;
}

// upto returns the number of lanes with mine <= x. mine must ascend from lane to lane.
__device__ __forceinline__ uint32_t upto(uint64_t mine, uint64_t x) {
  uint32_t n = 0;
#pragma unroll
  for (uint32_t step = kWarp / 2; step != 0; step /= 2) {
    if (shuffle(kAll, mine, n + step - 1) <= x) n += step;
  }
  return n + (shuffle(kAll, mine, n) <= x);
}

// The maximum number of arcs that a warp takes at a time.
constexpr uint32_t kTile = 256;

// tile_of returns the number of arcs that a warp takes at a time. The number is small enough that
// all warps have work, because warps wait for memory most of the time.
__device__ __forceinline__ uint64_t tile_of(uint64_t total) {
  const uint64_t rows = (total + warps_in_grid() * kWarp - 1) / (warps_in_grid() * kWarp);
  return rows * kWarp < kTile ? rows * kWarp : kTile;
}

// for_each_entry calls visit(there, i, at) for each entry of n lists. The entries are numbered from
// 0 to total-1, and list i begins with entry starts[i]. In a call, at is the number of the entry
// and i is its list. Warps take equal numbers of entries, whatever the lengths of the lists. All
// lanes of a warp call visit, and lanes without an entry call it with there = false.
template <class F>
__device__ __forceinline__ void for_each_entry(const uint64_t* starts, uint32_t n, uint64_t total, F visit) {
  const uint64_t tile = tile_of(total);
  for (uint64_t base = warp_index() * tile; base < total; base += warps_in_grid() * tile) {
    const uint64_t end = total - base < tile ? total : base + tile;
    uint32_t lo = last_warp(starts, n, base);
    for (uint64_t from = base; from < end; from += kWarp) {
      const uint64_t at = from + lane_index();
      const uint32_t next = lo + 1 + lane_index();
      const uint64_t begins = next < n ? starts[next] : ~uint64_t(0);
      uint32_t i = lo + upto(begins, at);
      // some lists are empty
      if (shuffle(kAll, begins, kWarp - 1) <= from + kWarp - 1) i = last(starts, lo, n, at);
      visit(at < end, i, at);
      lo = shuffle(kAll, i, kWarp - 1);
    }
  }
}

// for_each_arc calls visit(there, v, arc) for the arcs of the vertices of a list, except for the
// first skip arcs of each vertex.
template <class F>
__device__ __forceinline__ void for_each_arc(const Rows& g, const Frontier& f, uint32_t skip, F visit) {
  const uint64_t size = *f.size;
  for_each_entry(f.starts, vertices_of(size), arcs_of(size), [&](bool there, uint32_t i, uint64_t at) {
    const uint32_t v = f.list[i];
    visit(there, v, g.offsets[v] + skip + (at - f.starts[i]));
  });
}

// ---- the transposed graph ----------------------------------------------------

struct TurnParams {
  Rows rows;
  uint32_t* sources;       // source of each arc
  const uint32_t* sorted;  // targets, sorted
  uint64_t* offsets;       // index in sorted of the first arc to each vertex
};

__device__ __forceinline__ void turn_sources(const TurnParams& p) {
  for_each_entry(p.rows.offsets, p.rows.vertices, p.rows.arcs, [&](bool there, uint32_t v, uint64_t at) {
    if (there) p.sources[at] = v;
  });
}

__device__ __forceinline__ void turn_offsets(const TurnParams& p) {
  for (uint64_t v = thread_index(); v <= p.rows.vertices; v += threads_in_grid()) {
    uint64_t lo = 0, hi = p.rows.arcs;
    while (lo < hi) {
      const uint64_t mid = lo + (hi - lo) / 2;
      if (p.sorted[mid] < v) {
        lo = mid + 1;
      } else {
        hi = mid;
      }
    }
    p.offsets[v] = lo;
  }
}

}  // namespace weft::traversal
