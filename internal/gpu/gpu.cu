// Kernels that the engines of all structures launch.
#include "weft/account.cuh"
#include "weft/scan.cuh"

using namespace weft;

struct AddParams {
  const Counters* counters;  // counters of a structure, or null
  uint64_t* to;
  uint64_t n;
  uint32_t negate;
  uint32_t unused;
};

// gpu_add adds n and the number of pairs of a structure to a counter of the caller. If negate is
// set, gpu_add subtracts the number of pairs instead. Other work may run concurrently.
extern "C" __global__ void gpu_add(AddParams p) {
  if (thread_in_block() != 0) return;
  uint64_t live = p.counters ? load_relaxed(&p.counters->live) : 0;
  add_relaxed(p.to, p.n + (p.negate ? 0 - live : live));
}

struct SettleParams {
  Counters* counters;  // counters of a structure
  Account* account;
};

// gpu_settle adds the effects of users' kernels to the counters of a structure.
extern "C" __global__ void gpu_settle(SettleParams p) {
  if (thread_in_block() == 0) settle(*p.counters, *p.account);
}

struct AnswerParams {
  const void* found;     // value found for each row
  const uint8_t* there;  // whether a value was found for each row
  void* vals;
  // in: whether each row inserted its key; out: whether the key was present before; may be null
  uint8_t* ok;
  uint64_t n;
};

// answer copies the value found for each row to vals.
template <class V>
__device__ __forceinline__ void answer(const AnswerParams& p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    bool there = p.there[i];
    if (there) static_cast<V*>(p.vals)[i] = static_cast<const V*>(p.found)[i];
    if (p.ok) p.ok[i] = there && !p.ok[i];
  }
}
extern "C" __global__ void gpu_answer_32(AnswerParams p) { answer<uint32_t>(p); }
extern "C" __global__ void gpu_answer_64(AnswerParams p) { answer<uint64_t>(p); }

// These kernels compute offsets from counts by prefix sums.
extern "C" __global__ void gpu_scan_sums(ScanParams p) { scan_sums(p); }
extern "C" __global__ void gpu_scan_strips(ScanParams p) { scan_strips(p); }
extern "C" __global__ void gpu_scan_offsets(ScanParams p) { scan_offsets(p); }
