// Measures the time of one memory access. A thread follows pointers and waits for each access.
#include "weft/warp.cuh"

namespace {

struct ChaseParams {
  uint64_t* region;
  uint64_t* at;    // the position of the thread
  uint64_t lines;  // number of lines of 128 bytes, a power of two
  uint64_t steps;
};

constexpr uint32_t kChaseBlock = 256;
constexpr uint32_t kLineWords = 16;

// next is a permutation of the lines that has only one cycle. It is a linear congruence of full
// period, with a multiplier that is 1 modulo 4, and an odd increment. chase.go has the same
// function.
__device__ __forceinline__ uint64_t next(uint64_t line, uint64_t lines) { return (line * 0x5851f42d4c957f2d + 0x14057b7ef767814f) & (lines - 1); }

}  // namespace

extern "C" __global__ void __launch_bounds__(kChaseBlock) chase_fill(ChaseParams p) {
  for (uint64_t i = weft::thread_index(); i < p.lines; i += weft::threads_in_grid())
    weft::store_once(p.region + i * kLineWords, next(i, p.lines) * kLineWords);
}

// The L1 cache of the multiprocessor may serve weak loads.
extern "C" __global__ void __launch_bounds__(kChaseBlock) chase_weak(ChaseParams p) {
  if (weft::thread_index() != 0) return;
  uint64_t at = *p.at;
  for (uint64_t i = 0; i < p.steps; i++) at = p.region[at];
  weft::store_once(p.at, at);
}

// The L2 cache serves relaxed loads of the device's scope.
extern "C" __global__ void __launch_bounds__(kChaseBlock) chase_relaxed(ChaseParams p) {
  if (weft::thread_index() != 0) return;
  uint64_t at = *p.at;
  for (uint64_t i = 0; i < p.steps; i++) at = weft::load_relaxed(p.region + at);
  weft::store_once(p.at, at);
}
