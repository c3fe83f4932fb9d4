// Kernels of maps of package slab whose operations combine values.
#include "change.cuh"
#include "weft/entry.cuh"
#include "weft/gather.cuh"

namespace weft::slab {

// Reduce does a reduction per lane, in a launch of nothing else.
template <class S, class V>
struct Reduce {
  const ChangeParams<Table>& p;

  __device__ __forceinline__ void operator()(Operation<S>& op) const {
    change<S, false, V>(p.table, p.changes.flags | kSteady, op);
  }
};

}  // namespace weft::slab

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::slab;
WEFT_WIDTHS;

WEFT_KERNEL(slab_reduce_mixed, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_mixed<S, K, V>(p.changes, p.table.counters, Reduce<S, V>{p});
}
WEFT_KERNEL(slab_reduce_rows, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_rows<S, K, V>(p.changes, p.table.counters, Reduce<S, V>{p});
}
