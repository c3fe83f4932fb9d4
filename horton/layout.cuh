// Parameters of the kernels of package horton. weft/horton_table.cuh and layout.go describe the
// memory of a table.
#pragma once

#include "weft/horton_find.cuh"
#include "weft/horton_displace.cuh"
#include "weft/moves.cuh"

namespace weft::horton {

// ReclaimParams selects buckets [lo,hi). If keys is not null, it selects the primary buckets of
// keys [lo,hi) of a batch.
struct ReclaimParams {
  Table table;
  const void* keys;
  uint32_t lo, hi;
  uint32_t narrow;  // NarrowColumns
  uint32_t unused;
};

struct StatsParams {
  Table table;
  // The kernel adds to five sums. They count buckets of type B, entries, secondary keys, secondary
  // keys in buckets of type B, and buckets without a free slot.
  uint64_t* sums;
};

}  // namespace weft::horton
