// Kernels that the engines of all structures launch.
#include "weft/account.cuh"
#include "weft/scan.cuh"

using namespace weft;

struct AddParams {
  const Counters* counters;  // of a structure; may be null
  uint64_t* to;
  uint64_t n;
  uint32_t negate;
  uint32_t unused;
};

// Adds n and the number of pairs of a structure to a counter of the caller, concurrently with other
// work.
extern "C" __global__ void gpu_add(AddParams p) {
  if (thread_in_block() != 0) return;
  uint64_t live = p.counters ? load_relaxed(&p.counters->live) : 0;
  add_relaxed(p.to, p.n + (p.negate ? 0 - live : live));
}

struct SettleParams {
  Counters* counters;  // of a structure
  Account* account;
};

// Adds the effects of users' kernels to the counters of a structure.
extern "C" __global__ void gpu_settle(SettleParams p) {
  if (thread_in_block() == 0) settle(*p.counters, *p.account);
}

struct AnswerParams {
  const void* found;     // values
  const uint8_t* there;  // whether they are valid
  void* vals;
  uint8_t* ok;  // may be null; in: inserted, out: found
  uint64_t n;
};

// Gives each row the value found for it.
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

// From counts to offsets.
extern "C" __global__ void gpu_scan_sums(ScanParams p) { scan_sums(p); }
extern "C" __global__ void gpu_scan_strips(ScanParams p) { scan_strips(p); }
extern "C" __global__ void gpu_scan_offsets(ScanParams p) { scan_offsets(p); }
