// First drafts of kernel.cu. Each draft has a race, which main_test.go detects.
#include "rows.cuh"

using namespace weft;

// Race: another lane may put a sum between find and put. This put then overwrites that sum.
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

// Race: lanes add to one counter without an atomic operation.
extern "C" __global__ void draft_count(TotalParams p) {
  uint64_t i = thread_index();
  if (i >= p.rows) return;
  int64_t cents = p.cents[i];
  if (cents < p.least) return;
  *p.counted += 1;
  p.campaigns.for_each(p.customers[i], [&](uint32_t campaign) { p.totals.reduce(kSum, campaign, cents); });
}
