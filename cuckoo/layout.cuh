// Parameters of the kernels of package cuckoo. weft/cuckoo_table.cuh and layout.go describe the
// memory that they work on.
#pragma once

#include "weft/cuckoo_displace.cuh"
#include "weft/cuckoo_find.cuh"
#include "weft/moves.cuh"

namespace weft::cuckoo {

struct StatsParams {
  Table table;
  // Added to: buckets before that of each key, buckets without an empty slot, stashed keys.
  uint64_t* sums;
};

}  // namespace weft::cuckoo
