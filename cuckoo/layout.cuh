// Parameters of the kernels of package cuckoo. The memory that they work on is described
// in weft/cuckoo_table.cuh, and in layout.go.
#pragma once

#include "weft/cuckoo_displace.cuh"
#include "weft/cuckoo_find.cuh"
#include "weft/moves.cuh"

namespace weft::cuckoo {

struct StatsParams {
  Table table;
  uint64_t* sums;  // added to: buckets before that of each key, buckets without an empty slot, stashed keys
};

}  // namespace weft::cuckoo
