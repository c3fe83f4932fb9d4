// Batches of edges for a graph with arcs that go to bins (package graph, gpu_small.go): a block for
// each bin of vertices orders its arcs, settles the fates of edges, and plans rows. Blocks wait for
// nothing; graph_bins.cuh writes the planned rows.
#pragma once

#include "graph_write.cuh"

namespace weft::graph {

constexpr uint32_t kBinArcs = 2048;  // the largest capacity of a bin
constexpr uint32_t kGroups = 256;    // of blocks, as many as a block has threads
constexpr uint32_t kTogether = 64;   // bins with counts that are added up together

// Segment is the arcs of a vertex in a bin.
struct alignas(16) Segment {
  uint32_t vertex;
  uint32_t arcs;    // the first, and above it the end
  uint32_t then;    // degree
  uint32_t groups;  // of the new block, and above it of the old one
};

// Chunk is a part of a row that is too large for one block.
struct Chunk {
  uint32_t* from;    // ids
  uint32_t segment;  // among those of all bins
  uint32_t before;   // class
  uint32_t first;    // entries: from, and up to
  uint32_t last;
};

constexpr uint32_t kChunk = 2048;     // entries
constexpr uint32_t kLargeClass = 29;  // from which on rows are cut: more than kChunk entries

// Binned holds what is known of the bins when their rows are written.
struct Binned {
  uint32_t* numbers;   // of segments of each bin
  Segment* segments;   // of each bin, up to its capacity
  // Number of segments of each bin in each group; later, of those in the bins before.
  uint32_t* counts;
  uint32_t* sums;      // the same of kTogether bins; zero at first
  uint32_t* groups;    // of all; zero at first
  Chunk* chunks;
  uint32_t most;       // segments of a bin
  uint32_t room;       // for chunks
};

struct FewParams {
  Graph graph;
  Arcs arcs;
  Bins bins;
  Binned binned;
  uint8_t* ok;       // may be null
  uint64_t covered;  // vertices of the bins
  uint32_t held;     // snapshots are held
  uint32_t newest;   // of them
};

// InBin presents the arcs of a bin to settle.
struct InBin {
  static constexpr bool kDeltas = true;  // a removal stores by how much the row becomes longer
  using Index = uint32_t;
  Shared<uint64_t> words;
  uint64_t base;   // of the bin's arcs among those of all
  uint32_t vertex; // the first
  uint32_t gone, low, bits;
  __device__ __forceinline__ uint64_t edge(Index i) const { return load_weak(words + i) >> low; }
  __device__ __forceinline__ uint32_t source(uint64_t edge) const { return vertex + uint32_t(edge >> bits); }
  __device__ __forceinline__ bool drops(uint64_t edge) const { return uint32_t(edge >> bits) == gone; }
  __device__ __forceinline__ uint32_t row(Index i) const { return uint32_t(load_weak(words + i) & ((uint64_t(1) << low) - 1)); }
  __device__ __forceinline__ bool numbered() const { return low != 0; }
  __device__ __forceinline__ uint64_t place(Index i) const { return base + i; }
};

// in_bin returns a bin with words that are loaded.
__device__ __forceinline__ InBin in_bin(const Bins& b, uint32_t bin, Shared<uint64_t> words) {
  return {words, uint64_t(bin) * b.size, bin * b.width, uint32_t(gone(b)), b.low, b.bits};
}

// ---- in order --------------------------------------------------------------

// A word's leading bits select one of kCells cells. Within a cell its place is found by comparing
// it with all others, unless they are more than kMostInCell.
constexpr uint32_t kCells = 2048, kMostInCell = 32;

// Ordering is the memory of a block that orders a bin.
struct Ordering {
  alignas(16) uint64_t words[2 * kBinArcs];
  alignas(16) uint32_t cells[kCells + 1];
  uint32_t sums[kBlockWarps];
};

// for_words calls f(i, word) for n words; the loads of a thread are issued together.
template <class F>
__device__ __forceinline__ void for_words(const uint64_t* words, uint32_t n, F f) {
  for (uint32_t from = thread_in_block(); from < n; from += kAhead * kBlock) {
    uint64_t word[kAhead];
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++) word[k] = from + k * kBlock < n ? words[from + k * kBlock] : 0;
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++) {
      if (from + k * kBlock < n) f(from + k * kBlock, word[k]);
    }
  }
}

// sort_bin is a bitonic sort in which smaller words always go to smaller places, so it needs no
// padding after the last.
__device__ __forceinline__ void sort_bin(Shared<uint64_t> words, uint32_t n) {
  for (uint32_t size = 2; size / 2 < n; size *= 2) {
    for (uint32_t step = size / 2; step != 0; step /= 2) {
      for (uint32_t t = thread_in_block();; t += kBlock) {
        const uint32_t a = 2 * (t & ~(step - 1)) | (t & (step - 1)), b = step == size / 2 ? a ^ (size - 1) : a + step;
        if (a >= n) break;
        if (b >= n) continue;
        const uint64_t x = load_weak(words + a), y = load_weak(words + b);
        if (x > y) store_weak(words + a, y), store_weak(words + b, x);
      }
      sync_block();
    }
  }
}

// block_running returns the sum of the numbers of a block's threads before this one. sums holds
// those of warps.
template <class N>
__device__ __forceinline__ N block_running(N n, Shared<N> sums) {
  const N up_to = running(n);
  const uint32_t warp = thread_in_block() / kWarp;
  if (lane_index() == kWarp - 1) store_weak(sums + warp, up_to);
  sync_block();
  N before = up_to - n;
#pragma unroll
  for (uint32_t w = 0; w < kBlockWarps - 1; w++) before += w < warp ? load_weak(sums + w) : 0;
  return before;
}

// begin_cells turns the number of words in each cell into the begin of the cell, and reports
// whether a cell has too many.
__device__ __forceinline__ bool begin_cells(Shared<uint32_t> cells, Shared<uint32_t> sums) {
  constexpr uint32_t kFours = kCells / kBlock / 4;
  const Shared<Word128> four = {(cells + thread_in_block() * 4 * kFours).address};
  uint32_t n[4 * kFours], all = 0;
  bool many = false;
#pragma unroll
  for (uint32_t k = 0; k < kFours; k++) {
    const Word128 x = load_weak(four + k);
    n[4 * k] = uint32_t(x.x), n[4 * k + 1] = uint32_t(x.x >> 32), n[4 * k + 2] = uint32_t(x.y), n[4 * k + 3] = uint32_t(x.y >> 32);
  }
#pragma unroll
  for (uint32_t k = 0; k < 4 * kFours; k++) all += n[k], many |= n[k] > kMostInCell;
  uint64_t at = block_running(all, sums);
#pragma unroll
  for (uint32_t k = 0; k < kFours; k++) {
    const uint64_t a = at, b = a + n[4 * k], c = b + n[4 * k + 1], d = c + n[4 * k + 2];
    store_weak(four + k, Word128{a | b << 32, c | d << 32});
    at = d + n[4 * k + 3];
  }
  if (thread_in_block() == kBlock - 1) store_weak(cells + kCells, uint32_t(at));
  return count_block(many) != 0;
}

// order_bin puts the words of a bin in order, and returns their place: the other half of the memory
// is free then.
__device__ __forceinline__ Shared<uint64_t> order_bin(const Bins& b, uint32_t bin, uint32_t n, Ordering* o) {
  const uint64_t* from = b.words + uint64_t(bin) * b.size;
  const Shared<uint64_t> scattered = shared(o->words), ordered = scattered + kBinArcs;
  const Shared<uint32_t> cells = shared(o->cells), slots = {ordered.address};
  const uint32_t bits = highest(b.width) + 1 + b.bits + b.low, shift = bits > highest(kCells) ? bits - highest(kCells) : 0;
  for (uint32_t i = thread_in_block(); i < kCells / 4; i += kBlock) store_weak(Shared<Word128>{cells.address} + i, Word128{0, 0});
  sync_block();
  for_words(from, n, [&](uint32_t i, uint64_t word) { store_weak(slots + i, add_relaxed(cells + uint32_t(word >> shift), 1u)); });
  sync_block();
  const bool many = begin_cells(cells, shared(o->sums));
  for_words(from, n, [&](uint32_t i, uint64_t word) { store_weak(scattered + (load_weak(cells + uint32_t(word >> shift)) + load_weak(slots + i)), word); });
  sync_block();
  if (many) {
    sort_bin(scattered, n);
    return scattered;
  }
  for (uint32_t i = thread_in_block(); i < n; i += kBlock) {
    const uint64_t word = load_weak(scattered + i);
    const uint32_t cell = uint32_t(word >> shift), first = load_weak(cells + cell), end = load_weak(cells + cell + 1);
    uint32_t at = first;
    for (uint32_t j = first; j < end; j++) {
      const uint64_t other = load_weak(scattered + j);
      at += other < word || (other == word && j < i);
    }
    store_weak(ordered + at, word);
  }
  sync_block();
  return ordered;
}

// ---- settle ----------------------------------------------------------------

// sum_of_ones is running for numbers that are 1, 0 or -1.
__device__ __forceinline__ uint32_t sum_of_ones(uint32_t v) {
  const uint32_t up_to = kAll >> (kWarp - 1 - lane_index());
  return popcount(ballot(kAll, v == 1) & up_to) - popcount(ballot(kAll, v == ~0u) & up_to);
}

// Settling holds what a block has settled: by how much rows have become longer before each arc, and
// the first arc of each segment.
struct Settling {
  Shared<uint32_t> shifts, heads, firsts;
  uint32_t segments;
  uint32_t longer;  // all rows
};

// settle_bin decides the fate of each edge of a bin, and finds where segments begin. A warp takes
// consecutive groups of 32 arcs.
template <int Bits>
__device__ __forceinline__ Settling settle_bin(const FewParams& p, const InBin& in, uint32_t n, Settling s, Shared<uint32_t> sums) {
  const Arcs& a = p.arcs;
  const uint32_t lane = lane_index(), warp = thread_in_block() / kWarp, rows = (n + kBlock - 1) / kBlock, first = warp * rows * kWarp + lane;
  // each arc changes the length of its row by at most one
  const bool ones = !a.multi && !a.empties;
  uint32_t shift = 0, heads = 0, changed = 0;
  for (uint32_t row = 0; row < rows; row += kItems) {
    Arc<Bits> x[kItems];
    get_arcs<Bits>(p.graph, a, in, n, first + row * kWarp, rows - row, x);
#pragma unroll
    for (uint32_t r = 0; r < kItems; r++) {
      if (row + r >= rows) break;
      const uint32_t i = first + (row + r) * kWarp;
      const Settled done = i < n ? settle_one<Bits>(a, in, nullptr, p.ok, x[r], i, n) : Settled{0, false};
      const uint32_t begin = ballot(kAll, x[r].begins), sum = ones ? sum_of_ones(done.delta) : running(done.delta);
      if (i < n) {
        store_weak(s.shifts + i, shift + sum - done.delta);
        store_weak(s.heads + i, (heads + popcount(begin << (kWarp - 1 - lane))) << 1 | x[r].begins);
      }
      heads += popcount(begin);
      shift += shuffle(kAll, sum, kWarp - 1);
      changed += done.done;
    }
  }
  add_up(&a.control->changed, changed);
  if (lane == 0) store_weak(sums + warp, shift), store_weak(sums + kBlockWarps + warp, heads);
  sync_block();
  uint32_t before[2] = {};
#pragma unroll
  for (uint32_t w = 0; w < kBlockWarps; w++) {
    const uint32_t one = load_weak(sums + w), other = load_weak(sums + kBlockWarps + w);
    if (w < warp) before[0] += one, before[1] += other;
    s.longer += one, s.segments += other;
  }
  for (uint32_t row = 0; row < rows; row++) {
    const uint32_t i = first + row * kWarp;
    if (i >= n) break;
    const uint32_t head = load_weak(s.heads + i);
    store_weak(s.shifts + i, before[0] + load_weak(s.shifts + i));
    if (head & 1) store_weak(s.firsts + (before[1] + (head >> 1) - 1), i);
  }
  sync_block();
  return s;
}

// ---- plan ------------------------------------------------------------------

// cut lists the chunks of a large row.
__device__ __forceinline__ void cut(const FewParams& p, uint32_t segment, const Planned& x) {
  const uint32_t n = (x.degree - 1) / kChunk + 1, at = add_relaxed(&p.arcs.control->chunks, n);
  for (uint32_t k = 0; k < n && at + k < p.binned.room; k++) {
    const uint32_t first = k * kChunk, end = x.degree - first < kChunk ? x.degree : first + kChunk;
    p.binned.chunks[at + k] = {x.from, segment, x.before, first, end};
  }
}

// plan_bin plans the rows of a bin's segments, and counts them by groups.
template <int Bits>
__device__ __forceinline__ void plan_bin(const FewParams& p, const InBin& in, uint32_t bin, uint32_t n, const Settling& s, Shared<uint32_t> counts) {
  uint32_t limbo = 0;
  for (uint32_t i = thread_in_block(); i < s.segments; i += kBlock) {
    const uint32_t first = load_weak(s.firsts + i), last = i + 1 < s.segments ? load_weak(s.firsts + i + 1) : n;
    const uint32_t longer = (last < n ? load_weak(s.shifts + last) : s.longer) - load_weak(s.shifts + first);
    const uint64_t edge = in.edge(first);
    const uint32_t u = in.drops(edge) ? kNone : in.source(edge);
    const Planned x = plan_row<Bits>(p.graph, u, longer, p.held, p.newest, limbo);
    const uint32_t now = x.now != 0 ? x.now : kNoBlock, at = bin * p.binned.most + i;
    if (now != kNoBlock) add_relaxed(counts + now, 1u);
    if (x.old != kNoBlock) add_relaxed(counts + x.old, 1u);
    p.binned.segments[at] = {u, first | last << 16, x.then, now | x.old << 16};
    if (x.before >= kLargeClass && x.then != 0) cut(p, at, x);
  }
  if (p.held && limbo != 0) add_relaxed(&p.arcs.control->limbo, limbo);
}

// few orders the arcs of a bin, settles the fates of edges, and plans rows. If the arcs are not as
// expected, it leaves everything to the host.
template <int Bits>
__device__ __forceinline__ void few(const FewParams& p) {
  __shared__ Ordering ordering;
  __shared__ uint32_t shared_counts[kGroups];
  __shared__ uint32_t shared_sums[2 * kBlockWarps];
  Control* c = p.arcs.control;
  if (c->bad != 0 || c->crowded != 0 || c->all > p.covered) return;
  const uint32_t bin = block_index(), thread = thread_in_block(), n = p.bins.counts[bin * kCountStride];
  const Shared<uint32_t> counts = shared(shared_counts);
  store_weak(counts + thread, 0u);
  if (n != 0) {
    const Shared<uint64_t> words = order_bin(p.bins, bin, n, &ordering), half = shared(ordering.words);
    const Shared<uint32_t> free = {words.address == half.address ? (half + kBinArcs).address : half.address};
    const InBin in = in_bin(p.bins, bin, words);
    for (uint32_t i = thread; i < n; i += kBlock) p.bins.words[uint64_t(bin) * p.bins.size + i] = load_weak(words + i);
    const Settling s = settle_bin<Bits>(p, in, n, {free, free + kBinArcs, shared(ordering.cells), 0, 0}, shared(shared_sums));
    plan_bin<Bits>(p, in, bin, n, s, counts);
    if (thread == 0) {
      add_relaxed(&c->segments, s.segments);
      if (s.longer != 0) add_relaxed(&c->arcs, s.longer);
      p.binned.numbers[bin] = s.segments;
    }
  }
  sync_block();
  const uint32_t of = load_weak(counts + thread);
  p.binned.counts[bin * kGroups + thread] = of;
  if (of == 0) return;
  add_relaxed(p.binned.groups + thread, of);
  add_relaxed(p.binned.sums + bin / kTogether * kGroups + thread, of);
}

}  // namespace weft::graph
