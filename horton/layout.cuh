// Parameters of the kernels of package horton. weft/horton_table.cuh and layout.go describe the
// memory that they work on.
#pragma once

#include "weft/horton_find.cuh"
#include "weft/horton_displace.cuh"
#include "weft/moves.cuh"

namespace weft::horton {

// ReclaimParams describe buckets [lo,hi), or, if keys is not null, the primary buckets of keys
// [lo,hi) of a batch.
struct ReclaimParams {
  Table table;
  const void* keys;
  uint32_t lo, hi;
  uint32_t narrow;  // NarrowColumns
  uint32_t unused;
};

struct StatsParams {
  Table table;
  // Added to: buckets of type B, entries, secondary keys, those of them in buckets of type B,
  // buckets without a free slot.
  uint64_t* sums;
};

}  // namespace weft::horton
