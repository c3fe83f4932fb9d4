// The limits of a GPU's memory: the best rate of code that does nothing but the accesses. Every
// operation reads an 8-byte query, computes a random address from it, and for gathers writes an
// 8-byte result.
//
// One thread waits for one access at a time unless it has several in flight. The number that
// saturates the memory depends on the size of the access, so each kernel exists for several numbers
// and the host keeps the best.
#include "weft/hash.cuh"
#include "weft/warp.cuh"

namespace {

using weft::Word128;

struct Params {
  const uint64_t* queries;
  uint64_t* results;
  uint8_t* region;
  uint64_t count;  // number of queries; a multiple of a block's
  uint64_t cells;  // accesses' worth of region
};

constexpr uint64_t kSeed = 0x7765667400000001;
constexpr uint32_t kBlock = 256;

// The index of the query of group g in its warp's k-th round. Consecutive groups take consecutive
// queries, so the columns are read and written whole.
template <uint32_t kLanes, uint32_t kFlight>
__device__ __forceinline__ uint64_t query_index(uint32_t k) {
  constexpr uint32_t kGroups = weft::kWarp / kLanes;
  uint64_t warp = weft::thread_index() / weft::kWarp;
  return (warp * kFlight + k) * kGroups + weft::lane_index() / kLanes;
}

// kLanes threads share one cell of kLanes * kWords * 16 bytes; each keeps
// kFlight cells in flight.
template <uint32_t kLanes, uint32_t kWords, uint32_t kFlight>
__device__ __forceinline__ void gather(const Params& p) {
  const uint32_t lane = weft::lane_index() % kLanes;
  const Word128* region = reinterpret_cast<const Word128*>(p.region);

  uint64_t query[kFlight];
#pragma unroll
  for (uint32_t k = 0; k < kFlight; k++) query[k] = weft::load_once(p.queries + query_index<kLanes, kFlight>(k));

  Word128 word[kFlight][kWords];
#pragma unroll
  for (uint32_t k = 0; k < kFlight; k++) {
    uint64_t cell = weft::reduce(weft::hash(query[k], kSeed), p.cells);
#pragma unroll
    for (uint32_t w = 0; w < kWords; w++) word[k][w] = weft::load_weak(region + (cell * kWords + w) * kLanes + lane);
  }

#pragma unroll
  for (uint32_t k = 0; k < kFlight; k++) {
    uint64_t sum = query[k];  // uses every byte; otherwise the compiler would drop its load
#pragma unroll
    for (uint32_t w = 0; w < kWords; w++) sum += word[k][w].x ^ word[k][w].y;
#pragma unroll
    for (uint32_t x = 1; x < kLanes; x *= 2) {
      uint32_t lo = weft::shuffle_xor(weft::kAll, uint32_t(sum), x);
      uint32_t hi = weft::shuffle_xor(weft::kAll, uint32_t(sum >> 32), x);
      sum += uint64_t(hi) << 32 | lo;
    }
    if (lane == 0) weft::store_once(p.results + query_index<kLanes, kFlight>(k), sum);
  }
}

// The host clears the region before each run, so nearly every CAS succeeds and dirties its line,
// like that of an insert.
template <uint32_t kFlight>
__device__ __forceinline__ void cas64(const Params& p) {
  uint64_t* region = reinterpret_cast<uint64_t*>(p.region);
  uint64_t query[kFlight];
#pragma unroll
  for (uint32_t k = 0; k < kFlight; k++) query[k] = weft::load_once(p.queries + query_index<1, kFlight>(k));
#pragma unroll
  for (uint32_t k = 0; k < kFlight; k++)
    weft::cas_relaxed(region + weft::reduce(weft::hash(query[k], kSeed), p.cells), uint64_t(0), query[k] | 1);
}

// The instruction requires Hopper. On older GPUs the host omits this limit.
template <uint32_t kFlight>
__device__ __forceinline__ void cas128(const Params& p) {
#if __CUDA_ARCH__ >= 900
  Word128* region = reinterpret_cast<Word128*>(p.region);
  uint64_t query[kFlight];
#pragma unroll
  for (uint32_t k = 0; k < kFlight; k++) query[k] = weft::load_once(p.queries + query_index<1, kFlight>(k));
#pragma unroll
  for (uint32_t k = 0; k < kFlight; k++)
    weft::cas_relaxed(region + weft::reduce(weft::hash(query[k], kSeed), p.cells), Word128{0, 0}, Word128{query[k], 1});
#endif
}

}  // namespace

#define ENTRY(name, flight, body) \
  extern "C" __global__ void __launch_bounds__(kBlock) roofline_##name##_##flight(Params p) { body; }
#define FOR_ALL_FLIGHTS(ENTRIES) ENTRIES(1) ENTRIES(2) ENTRIES(4) ENTRIES(8)

#define KERNELS(flight)                                     \
  ENTRY(gather_16, flight, (gather<1, 1, flight>(p)))       \
  ENTRY(gather_32, flight, (gather<2, 1, flight>(p)))       \
  ENTRY(gather_64, flight, (gather<4, 1, flight>(p)))       \
  ENTRY(gather_128, flight, (gather<4, 2, flight>(p)))      \
  ENTRY(cas_64, flight, (cas64<flight>(p)))                 \
  ENTRY(cas_128, flight, (cas128<flight>(p)))
FOR_ALL_FLIGHTS(KERNELS)

// The queries: a counter, which the hash randomizes.
extern "C" __global__ void __launch_bounds__(kBlock) roofline_queries(Params p) {
  uint64_t i = weft::thread_index();
  if (i < p.count) weft::store_once(const_cast<uint64_t*>(p.queries) + i, i);
}

// Empty: the cost of a launch.
extern "C" __global__ void __launch_bounds__(kBlock) roofline_empty(Params p) {}
