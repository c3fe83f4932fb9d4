// Kernels that run the following query in one pass over the sales:
// SELECT campaign, SUM(cents) FROM sales JOIN campaigns USING (customer) WHERE cents >= least
// GROUP BY campaign
#include "rows.cuh"

using namespace weft;

// kernel_total processes one sale per lane. Each lane takes its own branch.
extern "C" __global__ void kernel_total(TotalParams p) {
  uint64_t i = thread_index();
  if (i >= p.rows) return;
  int64_t cents = p.cents[i];
  if (cents < p.least) return;
  add_relaxed(p.counted, uint64_t(1));
  p.campaigns.for_each(p.customers[i], [&](uint32_t campaign) { p.totals.reduce(kSum, campaign, cents); });
}

// kernel_total_warp processes 32 sales per warp. The lanes of a warp search for their customers
// together.
extern "C" __global__ void kernel_total_warp(TotalParams p) {
  uint64_t i = thread_index();
  bool there = i < p.rows && p.cents[i] >= p.least;
  count(p.counted, there);
  const int64_t* cents = p.cents + (i - lane_index());
  p.campaigns.for_each_warp(there, there ? p.customers[i] : 0, [&](uint32_t from, uint32_t campaign) {
    p.totals.reduce(kSum, campaign, cents[from]);
  });
}
