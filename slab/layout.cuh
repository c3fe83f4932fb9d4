// Parameters of the kernels of package slab. weft/slab_table.cuh and layout.go describe the memory
// of a table.
#pragma once

#include "tuning.cuh"
#include "weft/batch.cuh"
#include "weft/slab_table.cuh"
#include "weft/spread.cuh"

namespace weft::slab {

// TallyParams and CollectParams are the parameters of SEARCHALL: first the counts, then the pairs.
struct TallyParams {
  Table table;
  const void* keys;
  uint32_t* counts;
  uint64_t n;
};
struct CollectParams {
  Table table;
  const void* keys;
  const uint64_t* offsets;  // n + 1 offsets
  void* vals;      // values from row `first` on
  uint64_t first;  // first row that is written; no key ends before it
  uint64_t rows;   // end of the rows that are written
  uint32_t* found;  // current number of pairs per key; may be null
  uint64_t n;
};

struct RehashParams {
  Table from, to;
  uint32_t* lost;  // the kernel adds the number of pairs that overflow
};

struct FlushParams {
  Table table;
};

struct ChainParams {
  Table table;
  uint64_t* lengths;  // 32 numbers of buckets: with 0, 1, … 30 slabs, and with 31 or more
};

}  // namespace weft::slab
