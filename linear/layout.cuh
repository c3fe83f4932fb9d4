// Memory layout of package linear: the C++ twin of layout.go, and the
// parameters of its kernels.
#pragma once

#include "weft/batch.cuh"
#include "weft/hash.cuh"
#include "weft/spread.cuh"
#include "weft/tile.cuh"

namespace weft::linear {

constexpr uint32_t kLineBytes = 128;
constexpr uint32_t kSectorBytes = 32;

// ---- the table -------------------------------------------------------------

// Table is passed by value to every kernel.
struct Table {
  Word128* lines;  // nlines + 1 of 128 bytes; the last holds the reserved keys
  Counters* counters;
  uint64_t seed;
  uint32_t nlines;
  uint32_t max_lines;  // longest path, in lines
};

// locate gives the home sector of a key: its index in the table. Keys that
// look like sentinels live in the extra line, under another name.
template <class S>
__device__ __forceinline__ uint32_t locate(const Table& t, typename S::Key key) {
  using Key = typename S::Key;
  if (key >= S::kPending) return t.nlines * 4;
  return uint32_t(reduce(hash(key, t.seed), Key(t.nlines) * 4));
}
template <class S>
__device__ __forceinline__ typename S::Key stored(typename S::Key key) {
  return key >= S::kPending ? ~key : key;
}

// Path is the order in which sectors are searched for a key: its home sector,
// the other sectors of that line (index xor 1, 2, 3), then the next line in the
// same order, and so on around the table. Any aligned group of 1, 2 or 4
// sectors is read as a whole without leaving the order, so kernels with
// different appetites agree on it.
struct Path {
  uint32_t home;

  __device__ __forceinline__ uint32_t line() const { return home / 4; }
  __device__ __forceinline__ uint32_t sector() const { return home % 4; }

  // piece is the index, in 16-byte pieces, of half a sector of the path.
  __device__ __forceinline__ uint64_t piece(const Table& t, uint32_t ordinal, uint32_t half) const {
    uint32_t at = line() + ordinal / 4;
    if (at >= t.nlines && line() != t.nlines) at -= t.nlines;
    return uint64_t(at) * 8 + (sector() ^ ordinal % 4) * 2 + half;
  }
  // steps is the length of the path in groups of that many sectors. The extra
  // line is a path of its own.
  __device__ __forceinline__ uint32_t steps(const Table& t, uint32_t sectors) const {
    return (line() == t.nlines ? 1 : t.max_lines) * 4 / sectors;
  }
};

// ---- parameters ------------------------------------------------------------

struct RehashParams {
  Table from, to;
  uint32_t* lost;   // added to: keys that found no slot
  uint32_t lo, hi;  // lines of `from`; nlines is the extra line
};

// A rehash in place works on segments of kSegment lines. A segment's border is
// its first line that has an empty slot, or kNoBorder.
constexpr uint32_t kSegment = 16, kNoBorder = kAll;

struct InPlaceParams {
  Table table;
  uint32_t* borders;  // one per segment
  uint32_t* found;    // added to: segments that have a border
  uint32_t segments;  // of the table
  uint32_t lo, hi;    // segments to work on
  uint32_t unused;
};

struct StatsParams {
  Table table;
  uint64_t* sum;
  uint32_t* longest;
};

}  // namespace weft::linear
