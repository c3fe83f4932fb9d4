// Plans batches of edges for a graph if the arcs are in bins (package graph, gpu_small.go). One
// thread block per bin sorts the arcs of the bin, decides the net effect of the operations on each
// edge, and plans the rows. No thread block waits for another. graph_bins.cuh writes the planned
// rows.
#pragma once

#include "graph_write.cuh"

namespace weft::graph {

constexpr uint32_t kBinArcs = 2048;  // maximum capacity of a bin in arcs
constexpr uint32_t kGroups = 256;    // number of groups of blocks; equals threads per block
constexpr uint32_t kTogether = 64;   // number of bins for each sum of counts

// Segment describes the arcs of one vertex in a bin. In a sweep (graph_sweep.cuh), arcs is instead
// the mask of the entries that stay in a short row.
struct alignas(16) Segment {
  uint32_t vertex;
  uint32_t arcs;    // [first,end) in the bin: first in the lower half, end in the upper half
  uint32_t then;    // degree after the batch
  uint32_t groups;  // group of the new block in the lower half, of the old block in the upper half
};

// Chunk is a part of an old row. Rows that are too large for one thread block are cut into chunks.
struct Chunk {
  uint32_t* from;    // ids of the old row
  uint32_t segment;  // index of the segment, among the segments of all bins
  uint32_t before;   // class of the old row
  // entries [first,last) of the old row
  uint32_t first;
  uint32_t last;
};

constexpr uint32_t kChunk = 2048;     // maximum number of entries of a chunk
// smallest class of rows that are cut, which have more than kChunk entries
constexpr uint32_t kLargeClass = 29;

// Binned holds the plan for all bins.
struct Binned {
  uint32_t* numbers;   // number of segments of each bin
  Segment* segments;   // segments of each bin; each bin has room for `most`
  // Number of blocks of each bin in each group. place_few replaces it by the number in earlier
  // bins.
  uint32_t* counts;
  // number of blocks in each group, for each kTogether bins; zero at first
  uint32_t* sums;
  // number of blocks in each group, for all bins; zero at first
  uint32_t* groups;
  Chunk* chunks;
  uint32_t most;       // capacity of a bin in segments
  uint32_t room;       // capacity of chunks
};

struct FewParams {
  Graph graph;
  Arcs arcs;
  Bins bins;
  Binned binned;
  uint8_t* ok;       // may be null
  uint64_t covered;  // number of vertices that the bins cover
  uint32_t held;     // 1: a snapshot is held
  uint32_t newest;   // epoch of the newest snapshot
};

// InBin reads the arcs of a bin for get_arcs and settle_one.
struct InBin {
  static constexpr bool kDeltas = true;  // for a removal, places holds the growth of the row
  using Index = uint32_t;
  Shared<uint64_t> words;
  uint64_t base;   // index of the bin's first arc, among the arcs of all bins
  uint32_t vertex; // first vertex of the bin
  uint32_t gone, low, bits;
  __device__ __forceinline__ uint64_t edge(Index i) const { return load_weak(words + i) >> low; }
  __device__ __forceinline__ uint32_t source(uint64_t edge) const { return vertex + uint32_t(edge >> bits); }
  __device__ __forceinline__ bool drops(uint64_t edge) const { return uint32_t(edge >> bits) == gone; }
  __device__ __forceinline__ uint32_t row(Index i) const { return uint32_t(load_weak(words + i) & ((uint64_t(1) << low) - 1)); }
  __device__ __forceinline__ bool numbered() const { return low != 0; }
  __device__ __forceinline__ uint64_t place(Index i) const { return base + i; }
};

// in_bin describes a bin after its words have been loaded into shared memory.
__device__ __forceinline__ InBin in_bin(const Bins& b, uint32_t bin, Shared<uint64_t> words) {
  return {words, uint64_t(bin) * b.size, bin * b.width, uint32_t(gone(b)), b.low, b.bits};
}

// ---- sorting ---------------------------------------------------------------

// The leading bits of a word select one of kCells cells. Within a cell, a word finds its place by a
// comparison with all other words of the cell. If a cell has more than kMaxInCell words, the block
// sorts the bin by sort_bin instead.
constexpr uint32_t kCells = 2048, kMaxInCell = 32;

// Ordering is the shared memory of a block that sorts a bin.
struct Ordering {
  alignas(16) uint64_t words[2 * kBinArcs];
  alignas(16) uint32_t cells[kCells + 1];
  uint32_t sums[kBlockWarps];
};

// for_words calls f(i, word) for n words. A thread issues kInFlight loads together.
template <class F>
__device__ __forceinline__ void for_words(const uint64_t* words, uint32_t n, F f) {
  for (uint32_t from = thread_in_block(); from < n; from += kInFlight * kBlock) {
    uint64_t word[kInFlight];
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) word[k] = from + k * kBlock < n ? words[from + k * kBlock] : 0;
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) {
      if (from + k * kBlock < n) f(from + k * kBlock, word[k]);
    }
  }
}

// sort_bin sorts words by a bitonic sort. Each comparison moves the smaller word to the smaller
// index, so the words after the last need no padding.
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

// block_running returns the sum of n over all earlier threads of the block. It stores the sum of
// each warp in sums. All threads of the block must call it.
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

// begin_cells replaces the number of words in each cell by the index of the cell's first word. It
// reports whether a cell has more than kMaxInCell words.
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
  for (uint32_t k = 0; k < 4 * kFours; k++) all += n[k], many |= n[k] > kMaxInCell;
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

// order_bin sorts the words of a bin and returns where they are. The other half of Ordering::words
// is then free.
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

// ---- net effects -----------------------------------------------------------

// sum_of_ones is running for numbers that are 1, 0 or -1.
__device__ __forceinline__ uint32_t sum_of_ones(uint32_t v) {
  const uint32_t up_to = kAll >> (kWarp - 1 - lane_index());
  return popcount(ballot(kAll, v == 1) & up_to) - popcount(ballot(kAll, v == ~0u) & up_to);
}

// Resolution holds the results of settle_bin: the growth of all rows before each arc, and the first
// arc of each segment. In heads, bit 0 is set if the arc begins a segment, and the other bits count
// the segments that begin up to the arc.
struct Resolution {
  Shared<uint32_t> shifts, heads, firsts;
  uint32_t segments;
  uint32_t longer;  // growth of all rows
};

// settle_bin decides the net effect on each edge of a bin, and finds where segments begin. Each
// warp processes consecutive groups of 32 arcs.
template <int Bits>
__device__ __forceinline__ Resolution settle_bin(const FewParams& p, const InBin& in, uint32_t n, Resolution s, Shared<uint32_t> sums) {
  const Arcs& a = p.arcs;
  const uint32_t lane = lane_index(), warp = thread_in_block() / kWarp, rows = (n + kBlock - 1) / kBlock, first = warp * rows * kWarp + lane;
  // each arc changes the degree of its row by at most one
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
  add_warp_sum(&a.control->changed, changed);
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

// cut lists the chunks of a large row. It counts chunks beyond the capacity, but does not store
// them.
__device__ __forceinline__ void cut(const FewParams& p, uint32_t segment, const Planned& x) {
  const uint32_t n = (x.degree - 1) / kChunk + 1, at = add_relaxed(&p.arcs.control->chunks, n);
  for (uint32_t k = 0; k < n && at + k < p.binned.room; k++) {
    const uint32_t first = k * kChunk, end = x.degree - first < kChunk ? x.degree : first + kChunk;
    p.binned.chunks[at + k] = {x.from, segment, x.before, first, end};
  }
}

// plan_bin plans the rows of a bin's segments, and counts their new and old blocks by group.
template <int Bits>
__device__ __forceinline__ void plan_bin(const FewParams& p, const InBin& in, uint32_t bin, uint32_t n, const Resolution& s, Shared<uint32_t> counts) {
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

// few sorts the arcs of a bin, decides the net effects on edges, and plans rows. It does nothing if
// a vertex is beyond the limit, the bins do not cover a vertex, or a bin has overflowed. The host
// then plans the batch again or returns an error.
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
    const Resolution s = settle_bin<Bits>(p, in, n, {free, free + kBinArcs, shared(ordering.cells), 0, 0}, shared(shared_sums));
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
