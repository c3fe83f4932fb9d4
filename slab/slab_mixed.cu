// Kernels of maps and sets of package slab for batches that mix kinds of
// operations, and for those that combine values.
#include "change.cuh"
#include "weft/entry.cuh"
#include "weft/gather.cuh"
#include "weft/mixed.cuh"

namespace weft::slab {

// Change does an operation per lane; of V, if V is not void, reductions, in a launch
// of nothing else.
template <class S, class V = void>
struct Change {
  const ChangeParams<Table>& p;
  uint32_t flags = 0;

  __device__ __forceinline__ void operator()(Operation<S>& op) const {
    change<S, false, V>(p.table, p.changes.flags | flags, op);
  }
};

}  // namespace weft::slab

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::slab;
WEFT_WIDTHS;

WEFT_KERNEL(slab_mixed_change, kChangeBlocks)(ChangeParams<Table> p) {
  change_mixed<S, K, V>(p.changes, p.table.counters, Change<S>{p});
}
#if WEFT_VALUE_BITS
WEFT_KERNEL(slab_mixed_reduce, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_mixed<S, K, V>(p.changes, p.table.counters, Change<S, V>{p, kSteady});
}
WEFT_KERNEL(slab_mixed_rows, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_rows<S, K, V>(p.changes, p.table.counters, Change<S, V>{p, kSteady});
}
#endif
