// Kernels of package alloc. They allocate, release and count units in batches. One kernel is a
// test.
#include "weft/alloc.cuh"
#include "weft/shared.cuh"

namespace weft::units {

constexpr int kBlock = 256;  // threads per block

struct AllocateParams {
  Allocator alloc;
  uint32_t* units;
  uint32_t* missing;  // the kernel adds the number of failed allocations
  uint64_t n;
  uint32_t single;  // 1: one unit per call of allocate, as slab lists call it
  uint32_t unused;
};
struct ReleaseParams {
  Allocator alloc;
  const uint32_t* units;
  uint32_t* invalid;  // the kernel adds the number of units that it cannot release
  uint64_t n;
};
struct UsedParams {
  Allocator alloc;
  uint64_t* used;  // the kernel adds the number of units in use
};
struct ChurnParams {
  Allocator alloc;
  uint64_t* allocated;  // the kernel adds to this counter and to the next two
  uint32_t* missing;
  uint32_t* wrong;  // number of units allocated twice or changed by other owners
  uint32_t rounds;
  uint32_t seed;
};

// allocate_units fills an array with the addresses of units. An entry is kNoUnit if no unit was
// found.
__device__ __forceinline__ void allocate_units(const AllocateParams& p) {
  Resident resident;
  uint64_t i = thread_index();
  uint32_t unit = kNoUnit;
  if (p.single) {
    for (uint32_t l = 0; l < kWarp; l++) {
      uint32_t u = allocate(p.alloc, resident, l == lane_index() && i < p.n);
      if (l == lane_index()) unit = u;
    }
  } else {
    unit = allocate(p.alloc, resident, i < p.n);
  }
  if (i < p.n) store_once(p.units + i, unit);
  uint32_t missing = count_block(i < p.n && unit == kNoUnit);
  if (missing != 0 && thread_in_block() == 0) add_relaxed(p.missing, missing);
}

__device__ __forceinline__ void release_units(const ReleaseParams& p) {
  uint64_t i = thread_index();
  bool invalid = false;
  if (i < p.n) {
    uint32_t unit = load_once(p.units + i);
    invalid = !p.alloc.has(unit) || !release(p.alloc, unit);
  }
  uint32_t n = count_block(invalid);
  if (n != 0 && thread_in_block() == 0) add_relaxed(p.invalid, n);
}

__device__ __forceinline__ void used_units(const UsedParams& p) {
  uint64_t words = uint64_t(p.alloc.count) * kWarp, n = 0;
  for (uint64_t i = thread_index(); i < words; i += threads_in_grid())
    n += popcount(load_relaxed(p.alloc.bitmap(p.alloc.block(uint32_t(i / kWarp))) + i % kWarp));
  if (n != 0) add_relaxed(p.used, n);
}

// Weak accesses to the first word of a unit. With volatile, the compiler keeps each access.
__device__ __forceinline__ uint32_t signature(const uint32_t* unit) {
  uint32_t v;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(v) : "l"(unit) : "memory");
  return v;
}
__device__ __forceinline__ void sign(uint32_t* unit, uint32_t v) {
  asm volatile("st.global.b32 [%0], %1;" ::"l"(unit), "r"(v) : "memory");
}

// churn allocates and releases units at random. Each lane holds at most one unit, and signs the
// unit to detect other owners. Only fences order the writes of successive owners of a unit. These
// writes are weak stores, so the simulator reports a race if they are not ordered.
__device__ __forceinline__ void churn(const ChurnParams& p) {
  Resident resident;
  uint32_t me = uint32_t(thread_index()), held = kNoUnit, wrong = 0, missing = 0;
  uint64_t allocated = 0;
  for (uint32_t r = 0; r <= p.rounds; r++) {
    bool turn = (hash(me, uint64_t(p.seed) + r) & 1) != 0, last = r == p.rounds;
    bool gives = held != kNoUnit && (turn || last), takes = held == kNoUnit && turn && !last;
    if (gives) {
      uint32_t* unit = static_cast<uint32_t*>(p.alloc.at(held));
      wrong += signature(unit) != me;
      sign(unit, ~0u);
      fence();
      wrong += !release(p.alloc, held);
      held = kNoUnit;
    }
    uint32_t got = allocate(p.alloc, resident, takes);
    fence();
    sync_warp();
    if (takes && got != kNoUnit) {
      uint32_t* unit = static_cast<uint32_t*>(p.alloc.at(got));
      wrong += signature(unit) != ~0u;
      sign(unit, me);
      held = got, allocated++;
    }
    missing += takes && got == kNoUnit;
  }
  add_relaxed(p.allocated, allocated);
  if (missing != 0) add_relaxed(p.missing, missing);
  if (wrong != 0) add_relaxed(p.wrong, wrong);
}

}  // namespace weft::units

// ---- entry points ----------------------------------------------------------

using namespace weft::units;

#define WEFT_KERNEL extern "C" __global__ void __launch_bounds__(kBlock, 1)

WEFT_KERNEL alloc_allocate(AllocateParams p) { allocate_units(p); }
WEFT_KERNEL alloc_release(ReleaseParams p) { release_units(p); }
WEFT_KERNEL alloc_used(UsedParams p) { used_units(p); }
WEFT_KERNEL alloc_churn(ChurnParams p) { churn(p); }
