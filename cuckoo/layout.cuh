// Parameters of the kernels of package cuckoo. weft/cuckoo_table.cuh and layout.go describe the
// memory of a table.
#pragma once

#include "weft/cuckoo_displace.cuh"
#include "weft/cuckoo_find.cuh"
#include "weft/moves.cuh"

namespace weft::cuckoo {

struct StatsParams {
  Table table;
  // The kernel adds to three sums. sums[0]: for each key, the number of buckets before its own
  // bucket on its path. sums[1]: the number of buckets without an empty slot. sums[2]: the number
  // of stashed keys.
  uint64_t* sums;
};

}  // namespace weft::cuckoo
