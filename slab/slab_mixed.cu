// Kernels of maps and sets of package slab for batches that mix kinds of operations, and for
// batches that combine values.
#include "change.cuh"
#include "weft/entry.cuh"
#include "weft/gather.cuh"
#include "weft/mixed.cuh"

namespace weft::slab {

// Change runs one operation per lane.
template <class S>
struct Change {
  const ChangeParams<Table>& p;

  __device__ __forceinline__ void operator()(Operation<S>& op) const {
    change<S, false>(p.table, p.changes.flags, op);
  }
};

// Reduce runs one reduction per lane, in a launch without other operations.
template <class S, class V>
struct Reduce {
  const ChangeParams<Table>& p;

  __device__ __forceinline__ void operator()(Operation<S>& op) const {
    change<S, false, V>(p.table, p.changes.flags | kKeysFixed, op);
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
  reduce_mixed<S, K, V>(p.changes, p.table.counters, Reduce<S, V>{p});
}
WEFT_KERNEL(slab_mixed_rows, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_rows<S, K, V>(p.changes, p.table.counters, Reduce<S, V>{p});
}
#endif
