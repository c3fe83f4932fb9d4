// Kernels of package linear for batches that mix kinds of operations or combine values.
#include "change.cuh"
#include "weft/entry.cuh"
#include "weft/gather.cuh"
#include "weft/mixed.cuh"

namespace weft::linear {

// Change runs one operation per lane.
template <class S, int Lanes, int Pieces>
struct Change {
  const ChangeParams<Table>& p;

  __device__ __forceinline__ void operator()(Operation<S>& op) const {
    change_all<S, Lanes, Pieces>(p.table, p.changes.flags, op);
  }
};

// Reduce runs one reduction per lane, in a launch that only reduces.
template <class S, class V, int Lanes, int Pieces>
struct Reduce {
  const ChangeParams<Table>& p;

  __device__ __forceinline__ void operator()(Operation<S>& op) const {
    uint32_t flags = p.changes.flags | kKeysFixed;
    if (!folds(flags)) flags &= ~kCached;
    change_all<S, Lanes, Pieces, V>(p.table, flags, op);
  }
};

}  // namespace weft::linear

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::linear;
WEFT_WIDTHS;

WEFT_KERNEL(linear_mixed_change, kMixedBlocks<S>)(ChangeParams<Table> p) {
  change_mixed<S, K, V>(p.changes, p.table.counters, Change<S, kNarrowLanes, kNarrowPieces>{p});
}
WEFT_KERNEL(linear_mixed_change_wide, kChangeBlocks)(ChangeParams<Table> p) {
  change_mixed<S, K, V>(p.changes, p.table.counters, Change<S, kWideLanes, kWidePieces>{p});
}
#if WEFT_VALUE_BITS
WEFT_KERNEL(linear_mixed_reduce, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_mixed<S, K, V>(p.changes, p.table.counters, Reduce<S, V, kNarrowLanes, kNarrowPieces>{p});
}
WEFT_KERNEL(linear_mixed_reduce_wide, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_mixed<S, K, V>(p.changes, p.table.counters, Reduce<S, V, kWideLanes, kWidePieces>{p});
}
WEFT_KERNEL(linear_mixed_rows, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_rows<S, K, V>(p.changes, p.table.counters, Reduce<S, V, kNarrowLanes, kNarrowPieces>{p});
}
WEFT_KERNEL(linear_mixed_rows_wide, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_rows<S, K, V>(p.changes, p.table.counters, Reduce<S, V, kWideLanes, kWidePieces>{p});
}
#endif
