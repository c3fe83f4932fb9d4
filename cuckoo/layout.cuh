// Parameters of the kernels of package cuckoo. The memory that they work on is described
// in weft/cuckoo_table.cuh, and in layout.go.
#pragma once

#include "weft/cuckoo_find.cuh"

namespace weft::cuckoo {

// EvictParams are those of a change, and the operations that have found no room in it.
struct EvictParams {
  Table table;
  Changes changes;
  List spilled;    // the items become zero
  uint32_t still;  // no key moves
  uint32_t unused;
};

struct RehashParams {
  Table from, to;
  uint32_t* lost;   // added to: keys that found no slot
  uint32_t lo, hi;  // lines of `from`; nlines is the extra line
};

struct StatsParams {
  Table table;
  uint64_t* sums;  // added to: buckets before that of each key, buckets without an empty slot, stashed keys
};

}  // namespace weft::cuckoo
