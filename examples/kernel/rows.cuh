// Parameters of the kernels in this example.
#pragma once

#include "weft/linear.cuh"
#include "weft/slab.cuh"

struct TotalParams {
  weft::slab::MultiRef<int64_t, uint32_t> campaigns;  // of a customer
  weft::linear::Ref<uint32_t, int64_t> totals;        // of a campaign
  const int64_t* customers;                           // a row per sale
  const int64_t* cents;
  uint64_t* counted;  // the kernels add the number of sales with cents >= least
  int64_t least;
  uint32_t rows;
  uint32_t unused;
};
