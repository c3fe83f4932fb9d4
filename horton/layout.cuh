// Parameters of the kernels of package horton. The memory that they work on is described
// in weft/horton_table.cuh, and in layout.go.
#pragma once

#include "weft/horton_find.cuh"
#include "weft/horton_remap.cuh"

namespace weft::horton {

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

// ReclaimParams are of buckets [lo,hi), or where keys is not null, of the primary ones of so
// many keys of a batch.
struct ReclaimParams {
  Table table;
  const void* keys;
  uint32_t lo, hi;
};

struct StatsParams {
  Table table;
  // Added to: buckets of type B, entries, secondary keys, those of them in buckets of type B,
  // buckets without a free slot.
  uint64_t* sums;
};

}  // namespace weft::horton
