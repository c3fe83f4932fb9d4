// Parameters of the kernels of package horton. The memory that they work on is described
// in weft/horton_table.cuh, and in layout.go.
#pragma once

#include "weft/horton_find.cuh"
#include "weft/horton_displace.cuh"
#include "weft/moves.cuh"

namespace weft::horton {

// ReclaimParams are of buckets [lo,hi), or where keys is not null, of the primary ones of so
// many keys of a batch.
struct ReclaimParams {
  Table table;
  const void* keys;
  uint32_t lo, hi;
  uint32_t narrow;  // of NarrowColumns
  uint32_t unused;
};

struct StatsParams {
  Table table;
  // Added to: buckets of type B, entries, secondary keys, those of them in buckets of type B,
  // buckets without a free slot.
  uint64_t* sums;
};

}  // namespace weft::horton
