// First drafts of kernel.cu, with a race each. main_test.go detects them.
#include "rows.cuh"

using namespace weft;

// Between find and put, another lane may put its sum, which is then lost.
extern "C" __global__ void draft_total(TotalParams p) {
  uint64_t i = thread_index();
  if (i >= p.rows) return;
  int64_t cents = p.cents[i];
  if (cents < p.least) return;
  add_relaxed(p.counted, uint64_t(1));
  p.campaigns.for_each(p.customers[i], [&](uint32_t campaign) {
    int64_t total = 0;
    p.totals.find(campaign, &total);
    p.totals.put(campaign, total + cents);
  });
}

// Lanes add to one number without an atomic.
extern "C" __global__ void draft_count(TotalParams p) {
  uint64_t i = thread_index();
  if (i >= p.rows) return;
  int64_t cents = p.cents[i];
  if (cents < p.least) return;
  *p.counted += 1;
  p.campaigns.for_each(p.customers[i], [&](uint32_t campaign) { p.totals.reduce(kSum, campaign, cents); });
}
