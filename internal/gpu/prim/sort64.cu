// The kernels of sort.cuh for keys of 64 bits.
#include "sort.cuh"

using namespace weft::prim;

#define WEFT_PASS(val, V)                                                                            \
  extern "C" __global__ void __launch_bounds__(SortTuning<8, val / 8>::kThreads, SortTuning<8, val / 8>::kBlocks) \
  sort64_pass_##val(PassParams<uint64_t, V> p) { pass(p); }

extern "C" __global__ void __launch_bounds__(kHistogramThreads) sort64_histogram(HistogramParams<uint64_t> p) { histogram(p); }
WEFT_PASS(0, uint8_t)
WEFT_PASS(32, uint32_t)
WEFT_PASS(64, uint64_t)
