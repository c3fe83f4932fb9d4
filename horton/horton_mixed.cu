// Kernels of package horton for batches that mix kinds of operations or combine values.
#include "change.cuh"
#include "weft/entry.cuh"
#include "weft/gather.cuh"
#include "weft/mixed.cuh"

namespace weft::horton {

// Change runs one operation per lane. V is the type of values that may be combined, or void.
template <class Slots, class V = void>
struct Change {
  using S = Slots;
  const ChangeParams<Table>& p;

  __device__ __forceinline__ void operator()(Operation<S>& op) const {
    // a launch that only reduces
    const uint32_t steady = kReduces<S, V> ? uint32_t(kKeysFixed) : 0u;
    change_along<Narrow<S>, V>(p.table, p.changes.flags | steady, op);
  }
};

}  // namespace weft::horton

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::horton;
WEFT_WIDTHS;

WEFT_KERNEL(horton_mixed_change, kChangeBlocks)(ChangeParams<Table> p) {
  change_mixed<S, K, V>(p.changes, p.table.counters, Change<S>{p});
}
#if WEFT_VALUE_BITS
WEFT_KERNEL(horton_mixed_reduce, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_mixed<S, K, V>(p.changes, p.table.counters, Change<S, V>{p});
}
WEFT_KERNEL(horton_mixed_rows, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_rows<S, K, V>(p.changes, p.table.counters, Change<S, V>{p});
}
WEFT_KERNEL(horton_mixed_evict, kEvictBlocks)(EvictParams<Table> p) { evict_batch<Moved<S>, K, V, V, kBlock>(p); }
#endif
