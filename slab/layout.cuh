// Parameters of the kernels of package slab. The memory that they work on is
// described in weft/slab_table.cuh, and in layout.go.
#pragma once

#include "tuning.cuh"
#include "weft/batch.cuh"
#include "weft/slab_table.cuh"
#include "weft/spread.cuh"

namespace weft::slab {

// SEARCHALL, first how many, then which.
struct TallyParams {
  Table table;
  const void* keys;
  uint32_t* counts;
  uint64_t n;
};
struct CollectParams {
  Table table;
  const void* keys;
  const uint64_t* offsets;  // n + 1
  void* vals;      // from row first on
  uint64_t first;  // row that is written; no key ends before it
  uint64_t rows;   // the one behind the last that is
  uint32_t* found;  // how many pairs each key has now; may be null
  uint64_t n;
};

struct RehashParams {
  Table from, to;
  uint32_t* lost;  // added to: pairs without room
};

struct FlushParams {
  Table table;
};

struct ChainParams {
  Table table;
  uint64_t* lengths;  // 32: buckets of 0, 1, … slabs; the last of 31 and more
};

}  // namespace weft::slab
