// Parameters of the kernels of package linear. weft/linear_table.cuh and layout.go describe the
// memory of a table.
#pragma once

#include "weft/batch.cuh"
#include "weft/linear_table.cuh"
#include "weft/spread.cuh"

namespace weft::linear {

struct RehashParams {
  Table from, to;
  uint32_t* lost;   // the kernel adds the number of keys that found no slot
  uint32_t lo, hi;  // lines [lo,hi) of `from`; line nlines is the extra line
};

// A rehash in place works on segments of kSegment lines. A segment's border is its first line with
// an empty slot, or kNoBorder.
constexpr uint32_t kSegment = 16, kNoBorder = kAll;

struct InPlaceParams {
  Table table;
  uint32_t* borders;  // border of each segment
  uint32_t* found;    // the kernel adds the number of segments with a border
  uint32_t segments;  // number of segments in the table
  uint32_t lo, hi;    // segments [lo,hi) to work on
  uint32_t unused;
};

struct StatsParams {
  Table table;
  uint64_t* sum;
  uint32_t* longest;
};

}  // namespace weft::linear
