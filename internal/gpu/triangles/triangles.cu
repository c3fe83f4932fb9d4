// Kernels that count triangles. triangles.go explains them.
#include "ascend.cuh"
#include "count.cuh"
#include "delta.cuh"
#include "orient.cuh"

using namespace weft::triangles;

extern "C" __global__ void __launch_bounds__(kThreads) triangles_choose(OrientParams p) { orient_choose(p); }
extern "C" __global__ void __launch_bounds__(kThreads) triangles_rows(OrientParams p) { orient_rows(p); }
extern "C" __global__ void __launch_bounds__(kThreads) triangles_keep(OrientParams p) { orient_keep(p); }
extern "C" __global__ void __launch_bounds__(kThreads) triangles_ascend_keys(AscendParams p) { ascend_keys(p); }
extern "C" __global__ void __launch_bounds__(kThreads) triangles_ascend_choose(AscendParams p) { ascend_choose(p); }
extern "C" __global__ void __launch_bounds__(kThreads) triangles_ascend_rows(AscendParams p) { ascend_rows(p); }
extern "C" __global__ void __launch_bounds__(kThreads) triangles_ascend_keep(AscendParams p) { ascend_keep(p); }
extern "C" __global__ void __launch_bounds__(kThreads, 6) triangles_count(CountParams p) { count_rows(p); }
extern "C" __global__ void __launch_bounds__(kThreads, 6) triangles_hubs(CountParams p) { count_hubs(p); }
extern "C" __global__ void __launch_bounds__(kThreads) triangles_arcs(DeltaParams p) { delta_keys(p); }
extern "C" __global__ void __launch_bounds__(kThreads, 6) triangles_among(DeltaParams p) { delta_count(p); }
extern "C" __global__ void __launch_bounds__(kThreads) triangles_wide(DeltaParams p) { delta_hubs(p); }
