// Kernels for columns of edges.
#include "columns.cuh"

using namespace weft::slab;

extern "C" __global__ void __launch_bounds__(kBlock) slab_columns_keys(MixedParams p) { mixed_keys(p); }
extern "C" __global__ void __launch_bounds__(kBlock) slab_columns_last(MixedParams p) { mixed_last(p); }
extern "C" __global__ void __launch_bounds__(kBlock) slab_columns_outcomes(MixedParams p) { mixed_outcomes(p); }
extern "C" __global__ void __launch_bounds__(kBlock) slab_columns_targets(TargetsParams p) { targets(p); }
