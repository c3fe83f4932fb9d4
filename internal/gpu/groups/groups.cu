// Kernels that add rows to the records of groups, move records to a larger table, and write records
// as columns.
#include "result.cuh"

namespace weft::groups {

// move inserts records into another table, which must have enough capacity. The records have
// distinct keys.
__device__ __forceinline__ void move(const MoveParams& p) {
  uint32_t claimed = 0;
  for (uint64_t i = thread_index(); i <= p.from.slots; i += threads_in_grid()) {
    const uint64_t* from = record(p.from, uint32_t(i));
    const uint64_t key = from[0];
    if (key == 0 && i != p.from.slots) continue;
    const uint32_t at = key == 0 ? p.to.slots : claim(p.to, p.to.slots, key, home(p.to, hash(key, p.to.seed)), claimed);
    if (at == kNone) continue;
#pragma unroll 1
    for (uint32_t word = kCount; word < p.from.words; word++) record(p.to, at)[word] = from[word];
  }
  if (claimed != 0) add_relaxed(&p.head->used, claimed);
}

// carry carries the first word of each integer sum over into the second word. Afterwards 2^31 more
// rows may be added.
__device__ __forceinline__ void carry(const CarryParams& p) {
  for (uint64_t i = thread_index(); i <= p.table.slots; i += threads_in_grid()) {
    for (uint32_t j = 0; j < p.nfields; j++) {
      const Field& f = p.fields[j];
      if (f.op != kSum) continue;
      uint64_t* sum = record(p.table, uint32_t(i)) + f.at;
      const Parts low = parts(kInt64, sum[0]);
      const uint64_t high = sum[1] + low.high, size = is_signed(f.type) && high >= kSign ? 0 - high : high;
      sum[0] = low.low, sum[1] = high;
      if (size >= kSign / 2) store_relaxed(&p.head->over, 1u);
    }
  }
}

}  // namespace weft::groups

using namespace weft::groups;

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) groups_sum(AddParams p) { add<OneKey, OneSum<false>>(p); }
extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) groups_add(AddParams p) { add<OneKey, Any<false>>(p); }
extern "C" __global__ void __launch_bounds__(kThreads) groups_move(MoveParams p) { move(p); }
extern "C" __global__ void __launch_bounds__(kThreads) groups_carry(CarryParams p) { carry(p); }
extern "C" __global__ void __launch_bounds__(kThreads) groups_result(ResultParams p) { write_results(p); }
