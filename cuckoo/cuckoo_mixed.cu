// Kernels of package cuckoo for batches that mix kinds of operations or combine values.
#include "change.cuh"
#include "weft/entry.cuh"
#include "weft/gather.cuh"
#include "weft/mixed.cuh"

namespace weft::cuckoo {

// Change runs one operation per lane. V is the type of values that may be combined, or void.
template <class PathTile, class V = void>
struct Change {
  using S = typename PathTile::S;
  const ChangeParams<Table>& p;

  __device__ __forceinline__ void operator()(Operation<S>& op) const {
    // a launch that only reduces
    const uint32_t steady = kReduces<S, V> ? uint32_t(kKeysFixed) : 0u;
    change_some<PathTile, V>(p.table, p.changes.flags | steady, op);
  }
};

}  // namespace weft::cuckoo

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::cuckoo;
WEFT_WIDTHS;
using Wide = PathTile<S, kWideLanes>;
using Even = PathTile<S, kWideLanes, true>;

WEFT_KERNEL(cuckoo_mixed_change, kChangeBlocks)(ChangeParams<Table> p) {
  change_mixed<S, K, V>(p.changes, p.table.counters, Change<Wide>{p});
}
WEFT_KERNEL(cuckoo_mixed_change_even, kChangeBlocks)(ChangeParams<Table> p) {
  change_mixed<S, K, V>(p.changes, p.table.counters, Change<Even>{p});
}
#if WEFT_VALUE_BITS
WEFT_KERNEL(cuckoo_mixed_reduce, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_mixed<S, K, V>(p.changes, p.table.counters, Change<Wide, V>{p});
}
WEFT_KERNEL(cuckoo_mixed_reduce_even, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_mixed<S, K, V>(p.changes, p.table.counters, Change<Even, V>{p});
}
WEFT_KERNEL(cuckoo_mixed_rows, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_rows<S, K, V>(p.changes, p.table.counters, Change<Wide, V>{p});
}
WEFT_KERNEL(cuckoo_mixed_rows_even, kReduceBlocks<S>)(ChangeParams<Table> p) {
  reduce_rows<S, K, V>(p.changes, p.table.counters, Change<Even, V>{p});
}
WEFT_KERNEL(cuckoo_mixed_evict, kEvictBlocks)(EvictParams<Table> p) { evict_batch<Evicts<S>, K, V, V, kBlock>(p); }
#endif
