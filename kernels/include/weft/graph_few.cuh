// Small batches of edges for a graph (package graph, gpufew.go): what takes a launch each of large ones is done here by one block for each bin of arcs, whose
// vertices are its own; blocks wait for nothing but sums of those before them.
#pragma once

#include "graph_write.cuh"

namespace weft::graph {

constexpr uint32_t kBinArcs = 2048;  // that a bin has memory for, at most

// Binned is what of the bins is known when their blocks are planned.
struct Binned {
  uint32_t* segments;  // before those of each bin
  uint32_t* counts;    // of segments of each bin, kGroups of them: in each group
  uint32_t* groups;    // the same of all bins together; zero before
};

constexpr uint32_t kGroups = 256;

struct FewParams {
  SettleParams settle;
  PlanParams plan;
  Bins bins;
  Binned binned;
  uint64_t* keys;  // of all arcs, in order; written
  uint32_t* arcs;  // their numbers; null if nobody asks for them
};

// ---- in order --------------------------------------------------------------

// exchange puts two arcs in order, by their keys and then by their numbers.
__device__ __forceinline__ void exchange(Shared<uint64_t> keys, Shared<uint32_t> arcs, uint32_t a, uint32_t b) {
  const uint64_t x = load_weak(keys + a), y = load_weak(keys + b);
  if (x < y) return;
  const uint32_t i = load_weak(arcs + a), j = load_weak(arcs + b);
  if (x == y && i <= j) return;
  store_weak(keys + a, y), store_weak(keys + b, x);
  store_weak(arcs + a, j), store_weak(arcs + b, i);
}

// sort_bin is a bitonic sort in which smaller ones always go to smaller places: so what is beyond the last needs none.
__device__ __forceinline__ void sort_bin(Shared<uint64_t> keys, Shared<uint32_t> arcs, uint32_t n) {
  for (uint32_t size = 2; size / 2 < n; size *= 2) {
    for (uint32_t step = size / 2; step != 0; step /= 2) {
      for (uint32_t t = thread_in_block();; t += kBlock) {
        const uint32_t a = 2 * (t & ~(step - 1)) | (t & (step - 1)), b = step == size / 2 ? a ^ (size - 1) : a + step;
        if (a >= n) break;
        if (b < n) exchange(keys, arcs, a, b);
      }
      sync_block();
    }
  }
}

// arcs_before is the number of arcs of bins before one: each thread has the count of one.
__device__ __forceinline__ uint32_t arcs_before(const Bins& b, uint32_t bin, Shared<uint64_t> sums) {
  const uint32_t t = thread_in_block(), n = uint32_t(prim::sum_of_warp(t < bin ? b.counts[t * kCountStride] : 0));
  if (lane_index() == 0) store_weak(sums + t / kWarp, uint64_t(n));
  sync_block();
  uint32_t before = 0;
#pragma unroll
  for (uint32_t w = 0; w < kBlockWarps; w++) before += uint32_t(load_weak(sums + w));
  return before;
}

// order_bin writes the arcs of a bin to their places among all.
__device__ __forceinline__ Span order_bin(const FewParams& p, uint32_t bin, Shared<uint32_t> memory, Shared<uint64_t> sums) {
  const Bins& b = p.bins;
  const uint32_t first = arcs_before(b, bin, sums), n = b.counts[bin * kCountStride];
  const Shared<uint64_t> keys = {memory.address};
  const Shared<uint32_t> arcs = memory + 2 * kBinArcs;
  for (uint32_t i = thread_in_block(); i < n; i += kBlock) {
    store_weak(keys + i, b.keys[bin * b.size + i]);
    store_weak(arcs + i, b.arcs ? b.arcs[bin * b.size + i] : 0);
  }
  sync_block();
  sort_bin(keys, arcs, n);
  for (uint32_t i = thread_in_block(); i < n; i += kBlock) {
    p.keys[first + i] = load_weak(keys + i);
    if (b.arcs) p.arcs[first + i] = load_weak(arcs + i);
  }
  sync_block();
  return {first, first + n};
}

// ---- settle and plan -------------------------------------------------------

// plan_bin plans the rows of a bin's segments, up to its last arc, counts them by groups, and adds up the degrees that they had. memory is for a number of 64 bits each.
template <int Bits>
__device__ __forceinline__ void plan_bin(const FewParams& p, uint32_t bin, uint32_t last, const Both& found, Shared<uint32_t> counts, Shared<uint64_t> memory, prim::Tiles* tiles, Shared<uint64_t> sums) {
  const uint32_t begin = found.begin[0], end = found.up_to[0], lane = lane_index(), warp = thread_in_block() / kWarp;
  const uint32_t rows = (end - begin + kBlock - 1) / kBlock, first = warp * rows * kWarp + lane;
  const Rows& r = p.plan.rows;
  uint64_t sum = 0;
  uint32_t limbo = 0;
  for (uint32_t row = 0; row < rows; row++) {
    const uint32_t at = first + row * kWarp, i = begin + at;
    uint64_t degree = 0;
    if (i < end) {
      const uint32_t from = r.firsts[i], shift = r.shifts[from], to = i + 1 < end ? r.firsts[i + 1] : last;
      const uint32_t then = i + 1 < end ? r.shifts[to] : found.up_to[1];  // the next block writes what is behind
      const Planned x = plan_one<Bits>(p.plan, i, r.vertices[i], {from, to, shift, then - shift}, limbo);
      if (x.now != kNoBlock) add_relaxed(counts + x.now, 1u);
      if (x.old != kNoBlock) add_relaxed(counts + x.old, 1u);
      degree = x.degree;
    }
    const uint64_t up_to = running(degree);
    if (i < end) store_weak(memory + at, sum + up_to - degree);
    sum += shuffle(kAll, up_to, kWarp - 1);
  }
  uint64_t total;
  const uint64_t before = prim::block_before<kBlockWarps>(tiles, sums, p.plan.scan.sums, bin, sum, total);
  for (uint32_t row = 0; row < rows; row++) {
    const uint32_t at = first + row * kWarp;
    if (begin + at < end) r.olds[begin + at] = before + load_weak(memory + at);
  }
  if (bin == blocks_in_grid() - 1 && thread_in_block() == 0) r.olds[end] = total;
  if (p.plan.held && limbo != 0) add_relaxed(&p.plan.arcs.control->limbo, limbo);
}

// few puts the arcs of a bin in order, settles what becomes of edges, and plans rows. Where arcs are not what it expects, it leaves all to the host.
template <int Bits>
__device__ __forceinline__ void few(const FewParams& p) {
  __shared__ Sums sums;
  alignas(16) __shared__ uint32_t shared_memory[2 * kSettled];
  __shared__ uint32_t shared_counts[kGroups];
  __shared__ prim::Tiles tiles;
  __shared__ uint64_t shared_sums[kBlockWarps];
  static_assert(3 * kBinArcs <= 2 * kSettled && kBinArcs <= kSettled);
  const Control* c = p.settle.arcs.control;
  if (c->bad != 0 || c->crowded != 0 || c->all > uint64_t(1) << p.settle.arcs.bits) return;
  const Shared<uint32_t> memory = shared(shared_memory), counts = shared(shared_counts);
  const uint32_t bin = prim::begin_tile(&sums.tile, p.settle.scan.next), thread = thread_in_block();
  store_weak(counts + thread, 0u);
  const Span arcs = order_bin(p, bin, memory, shared(shared_sums));
  const uint32_t warps = uint32_t(arcs.last - arcs.first + kScanTile - 1) / kScanTile * kItems;
  const Both found = settle_span<Bits>(p.settle, &sums, memory, bin, arcs, arcs.first, warps);
  const bool last = bin == blocks_in_grid() - 1 && thread == 0;
  if (last) all_settled(p.settle, found);
  sync_block();
  plan_bin<Bits>(p, bin, uint32_t(arcs.last), found, counts, {memory.address}, &tiles, shared(shared_sums));
  sync_block();
  const uint32_t n = load_weak(counts + thread);
  p.binned.counts[bin * kGroups + thread] = n;
  if (n != 0) add_relaxed(p.binned.groups + thread, n);
  if (thread == 0) p.binned.segments[bin] = found.begin[0];
  if (last) p.binned.segments[bin + 1] = found.up_to[0];
}

// ---- blocks ----------------------------------------------------------------

struct PlaceFewParams {
  Graph graph;
  Rows rows;
  Binned binned;
  const Stack* stacks;
  uint32_t most;  // segments there might have been
  uint32_t unused;
};

// peers are the lanes that have the same number below 256.
__device__ __forceinline__ uint32_t peers(uint32_t number) {
  uint32_t lanes = kAll;
#pragma unroll
  for (uint32_t bit = 1; bit < kGroups; bit *= 2) {
    const uint32_t set = ballot(kAll, (number & bit) != 0);
    lanes &= number & bit ? set : ~set;
  }
  return lanes;
}

// counts_before adds up for all groups how many segments of bins before this one are in them.
__device__ __forceinline__ void counts_before(const Binned& b, uint32_t bin, Shared<uint32_t> counts) {
  const uint32_t lane = lane_index(), warp = thread_in_block() / kWarp;
  constexpr uint32_t kEach = kGroups / kWarp;
  uint32_t sums[kEach] = {};
#pragma unroll 4
  for (uint32_t i = warp; i < bin; i += kBlockWarps) {
#pragma unroll
    for (uint32_t k = 0; k < kEach; k++) sums[k] += b.counts[i * kGroups + k * kWarp + lane];
  }
#pragma unroll
  for (uint32_t k = 0; k < kEach; k++) add_relaxed(counts + k * kWarp + lane, sums[k]);
}

// number calls f(segment, group, number) for segments of a bin with their numbers among those of their groups. A warp goes through them in order.
template <class F>
__device__ __forceinline__ void number(const uint32_t* groups, uint32_t begin, uint32_t end, Shared<uint32_t> counts, F f) {
  const uint32_t lane = lane_index();
  for (uint32_t i = begin + lane; i - lane < end; i += kWarp) {
    const uint32_t group = i < end ? groups[i] : kNoBlock, same = peers(group), below = popcount(same & ((1u << lane) - 1));
    const uint32_t before = load_weak(counts + group);
    sync_warp();
    if (below == 0) store_weak(counts + group, before + popcount(same));
    sync_warp();
    if (group != kNoBlock) f(i, group, before + below);
  }
}

// place_few gives the rows of a bin their blocks, and numbers those that they had.
__device__ __forceinline__ void place_few(const PlaceFewParams& p) {
  __shared__ uint32_t shared_counts[2 * kGroups];
  const uint32_t bin = block_index(), warp = thread_in_block() / kWarp, begin = p.binned.segments[bin], end = p.binned.segments[bin + 1];
  const Shared<uint32_t> counts = shared(shared_counts), others = counts + kGroups;  // of new blocks, and of those before
  store_weak(counts + thread_in_block(), 0u);
  store_weak(others + thread_in_block(), 0u);
  sync_block();
  counts_before(p.binned, bin, counts);
  sync_block();
  store_weak(others + thread_in_block(), load_weak(counts + thread_in_block()));
  sync_block();
  if (warp == 0) number(p.rows.groups, begin, end, counts, [&](uint32_t i, uint32_t c, uint32_t r) { give_block(p.graph, p.rows.blocks, p.rows.moves, i, new_block(p.stacks, c, r)); });
  if (warp == 1) number(p.rows.groups + p.most, begin, end, others, [&](uint32_t i, uint32_t, uint32_t r) { p.rows.slots[i] = r; });
}

}  // namespace weft::graph
