// Parameters of the kernels of package linear. weft/linear_table.cuh and layout.go describe the
// memory that they work on.
#pragma once

#include "weft/batch.cuh"
#include "weft/linear_table.cuh"
#include "weft/spread.cuh"

namespace weft::linear {

struct RehashParams {
  Table from, to;
  uint32_t* lost;   // added to: keys that found no slot
  uint32_t lo, hi;  // lines of `from`; nlines is the extra line
};

// A rehash in place works on segments of kSegment lines. A segment's border is its first line with
// an empty slot, or kNoBorder.
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
