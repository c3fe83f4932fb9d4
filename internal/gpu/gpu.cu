// Kernels that engines of all structures launch.
#include "weft/change.cuh"
#include "weft/scan.cuh"

using namespace weft;

struct AddParams {
  const Counters* counters;  // of a structure
  uint64_t* to;
  uint32_t negate;
  uint32_t unused;
};

// Adds the number of pairs of a structure to a counter of the caller's, which
// others may be adding to.
extern "C" __global__ void gpu_add(AddParams p) {
  if (thread_in_block() != 0) return;
  uint64_t live = load_relaxed(&p.counters->live);
  add_relaxed(p.to, p.negate ? 0 - live : live);
}

// From counts to offsets.
extern "C" __global__ void gpu_scan_sums(ScanParams p) { scan_sums(p); }
extern "C" __global__ void gpu_scan_strips(ScanParams p) { scan_strips(p); }
extern "C" __global__ void gpu_scan_offsets(ScanParams p) { scan_offsets(p); }
