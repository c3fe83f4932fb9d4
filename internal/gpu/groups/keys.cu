// Kernels that only some tables need. They support keys of several columns, nulls, numbers for long
// keys, and first and last values.
#include "add.cuh"
#include "number.cuh"

namespace weft::groups {

// pick stores the values of the first and last rows that are in this batch.
__device__ __forceinline__ void pick(const PickParams& p) {
  for (uint64_t i = thread_index(); i <= p.table.slots; i += threads_in_grid()) {
    for (uint32_t j = 0; j < p.nfields; j++) {
      const Field& f = p.fields[j];
      if (f.op != kFirstRow && f.op != kLastRow) continue;
      uint64_t* to = record(p.table, uint32_t(i)) + f.at;
      const uint64_t kept = to[0], row = (f.op == kFirstRow ? ~kept : kept - 1) - p.base;
      if (kept != 0 && row < p.n) to[1] = load_word(f.column.values, f.type, row);
    }
  }
}

}  // namespace weft::groups

using namespace weft::groups;

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) keys_sum(AddParams p) { add<AnyKey, OneSum<true>>(p); }
extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) keys_add(AddParams p) { add<AnyKey, Any<true>>(p); }
extern "C" __global__ void __launch_bounds__(kThreads) keys_pick(PickParams p) { pick(p); }
extern "C" __global__ void __launch_bounds__(kThreads) keys_find(NumberParams p) { find(p); }
extern "C" __global__ void __launch_bounds__(kThreads) keys_number(NumberParams p) { number(p); }
extern "C" __global__ void __launch_bounds__(kThreads) keys_reindex(ReindexParams p) { reindex(p); }
