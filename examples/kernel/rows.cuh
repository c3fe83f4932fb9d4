// Parameters of the kernels of this example.
#pragma once

#include "weft/linear.cuh"
#include "weft/slab.cuh"

struct TotalParams {
  weft::slab::MultiRef<int64_t, uint32_t> campaigns;  // of a customer
  weft::linear::Ref<uint32_t, int64_t> totals;        // of a campaign
  const int64_t* customers;                           // a row per sale
  const int64_t* cents;
  uint64_t* counted;  // added to: sales that are large enough
  int64_t least;
  uint32_t rows;
  uint32_t unused;
};
