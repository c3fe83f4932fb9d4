// Kernels of the allocator: batches of units, and a test of it.
#include "units.cuh"

using namespace weft::slab;

#define WEFT_KERNEL extern "C" __global__ void __launch_bounds__(kBlock, 1)

WEFT_KERNEL slab_alloc_allocate(AllocateParams p) { allocate_units(p); }
WEFT_KERNEL slab_alloc_release(ReleaseParams p) { release_units(p); }
WEFT_KERNEL slab_alloc_used(UsedParams p) { used_units(p); }
WEFT_KERNEL slab_alloc_churn(ChurnParams p) { churn(p); }
