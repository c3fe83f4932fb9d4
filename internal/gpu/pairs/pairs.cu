// Kernels of joins. They compute the spans of rows with equal keys, and write pairs of rows.
// pairs.go explains the layout in memory.
#include "weft/access.cuh"
#include "weft/deal.cuh"
#include "weft/warp.cuh"

namespace weft {

// A span represents the rows that have one key. The upper half is their number. The lower half is
// the index of the first of them in the column rows or, for a single row, that row.
__device__ __forceinline__ uint64_t span(uint32_t at, uint32_t n) { return uint64_t(n) << 32 | at; }
__device__ __forceinline__ uint32_t place(uint64_t span) { return uint32_t(span); }
__device__ __forceinline__ uint32_t count(uint64_t span) { return uint32_t(span >> 32); }

constexpr uint32_t kNoRow = ~0u;

struct BuildParams {
  uint64_t* vals;         // per row: first its number, then a row with its key, then a span
  uint32_t* groups;       // per row: the row that represents all rows with its key
  const uint32_t* sorted; // groups, sorted
  uint32_t* begin;        // first index of each group in sorted
  uint32_t* end;          // index after the last one of each group
  const uint32_t* rows;   // rows, sorted by group
  uint32_t n;
  uint32_t unused;
};

struct FindParams {
  uint64_t* spans;
  uint32_t* counts;
  uint32_t n;
  uint32_t all;  // not 0: a row without a match gets a pair with kNoRow
};

struct WriteParams {
  const uint64_t* spans;
  const uint64_t* offsets;  // index of the first pair of each row; then the number of pairs
  const uint32_t* rows;
  uint32_t* left;
  uint32_t* right;
  uint64_t first;  // first pair to write
  uint64_t limit;  // maximum number of pairs to write
  uint32_t n;
  uint32_t unused;
};

// The number of pairs that a block writes at a time. The block searches for the rows of these pairs
// only between the rows of the first and the last pair.
constexpr uint32_t kPairs = 1024;

}  // namespace weft

using namespace weft;

extern "C" __global__ void pairs_number(BuildParams p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) store_once(p.vals + i, i);
}

extern "C" __global__ void pairs_groups(BuildParams p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) store_once(p.groups + i, uint32_t(load_once(p.vals + i)));
}

extern "C" __global__ void pairs_bounds(BuildParams p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint32_t group = p.sorted[i];
    if (i == 0 || p.sorted[i - 1] != group) p.begin[group] = uint32_t(i);
    if (i + 1 == p.n || p.sorted[i + 1] != group) p.end[group] = uint32_t(i + 1);
  }
}

extern "C" __global__ void pairs_spans(BuildParams p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint32_t group = p.groups[i];
    const uint32_t at = p.begin[group], n = p.end[group] - at;
    store_once(p.vals + i, span(n == 1 ? uint32_t(i) : at, n));
  }
}

extern "C" __global__ void pairs_counts(FindParams p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    uint64_t s = load_once(p.spans + i);
    if (p.all && count(s) == 0) p.spans[i] = s = span(kNoRow, 1);
    store_once(p.counts + i, count(s));
  }
}

extern "C" __global__ void __launch_bounds__(256, 4) pairs_write(WriteParams p) {
  const uint64_t total = p.offsets[p.n];
  if (p.first >= total) return;
  const uint64_t end = total - p.first < p.limit ? total : p.first + p.limit;
  const uint64_t threads = 256, blocks = threads_in_grid() / threads, me = thread_index() / threads, rank = thread_index() % threads;
  for (uint64_t at = p.first + me * kPairs; at < end; at += blocks * kPairs) {
    const uint64_t stop = end - at < kPairs ? end : at + kPairs;
    const uint32_t lo = row_of(p.offsets, 0, p.n - 1, at), hi = row_of(p.offsets, lo, p.n - 1, stop - 1);
    for (uint64_t pair = at + rank; pair < stop; pair += threads) {
      const uint32_t row = row_of(p.offsets, lo, hi, pair);
      const uint64_t s = p.spans[row];
      const uint32_t match = count(s) == 1 ? place(s) : p.rows[place(s) + uint32_t(pair - p.offsets[row])];
      store_once(p.left + (pair - p.first), row);
      store_once(p.right + (pair - p.first), match);
    }
  }
}
