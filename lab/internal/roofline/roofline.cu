// Measures the limits of a GPU's memory: the best rate of code that only accesses memory. Every
// operation reads an 8-byte query and computes a random address from the query. A gather also
// writes an 8-byte result.
//
// A thread waits for one access at a time unless it has several accesses in flight. The number that
// saturates the memory depends on the size of an access. So each kernel exists for several numbers,
// and the host keeps the best result.
#include "weft/hash.cuh"
#include "weft/warp.cuh"

namespace {

using weft::Word128;

struct Params {
  const uint64_t* queries;
  uint64_t* results;
  uint8_t* region;
  uint64_t count;  // number of queries; a multiple of the number per block
  uint64_t cells;  // number of cells in region; an operation accesses one cell
};

constexpr uint64_t kSeed = 0x7765667400000001;
constexpr uint32_t kBlock = 256;

// query_index returns the index of the query of this lane's group in round k. Consecutive groups
// take consecutive queries, so warps read and write consecutive elements of the columns.
template <uint32_t kLanes, uint32_t kInFlight>
__device__ __forceinline__ uint64_t query_index(uint32_t k) {
  constexpr uint32_t kGroups = weft::kWarp / kLanes;
  uint64_t warp = weft::thread_index() / weft::kWarp;
  return (warp * kInFlight + k) * kGroups + weft::lane_index() / kLanes;
}

// gather reads random cells. kLanes threads read one cell of kLanes * kWords * 16 bytes together,
// and have kInFlight cells in flight.
template <uint32_t kLanes, uint32_t kWords, uint32_t kInFlight>
__device__ __forceinline__ void gather(const Params& p) {
  const uint32_t lane = weft::lane_index() % kLanes;
  const Word128* region = reinterpret_cast<const Word128*>(p.region);

  uint64_t query[kInFlight];
#pragma unroll
  for (uint32_t k = 0; k < kInFlight; k++) query[k] = weft::load_once(p.queries + query_index<kLanes, kInFlight>(k));

  Word128 word[kInFlight][kWords];
#pragma unroll
  for (uint32_t k = 0; k < kInFlight; k++) {
    uint64_t cell = weft::reduce(weft::hash(query[k], kSeed), p.cells);
#pragma unroll
    for (uint32_t w = 0; w < kWords; w++) word[k][w] = weft::load_weak(region + (cell * kWords + w) * kLanes + lane);
  }

#pragma unroll
  for (uint32_t k = 0; k < kInFlight; k++) {
    uint64_t sum = query[k];  // uses every byte; otherwise the compiler would drop its load
#pragma unroll
    for (uint32_t w = 0; w < kWords; w++) sum += word[k][w].x ^ word[k][w].y;
#pragma unroll
    for (uint32_t x = 1; x < kLanes; x *= 2) {
      uint32_t lo = weft::shuffle_xor(weft::kAll, uint32_t(sum), x);
      uint32_t hi = weft::shuffle_xor(weft::kAll, uint32_t(sum >> 32), x);
      sum += uint64_t(hi) << 32 | lo;
    }
    if (lane == 0) weft::store_once(p.results + query_index<kLanes, kInFlight>(k), sum);
  }
}

// cas64 runs a compare-and-swap of 64 bits per query. The host clears the region before each run.
// So nearly every compare-and-swap succeeds and dirties its line, like that of an insertion.
template <uint32_t kInFlight>
__device__ __forceinline__ void cas64(const Params& p) {
  uint64_t* region = reinterpret_cast<uint64_t*>(p.region);
  uint64_t query[kInFlight];
#pragma unroll
  for (uint32_t k = 0; k < kInFlight; k++) query[k] = weft::load_once(p.queries + query_index<1, kInFlight>(k));
#pragma unroll
  for (uint32_t k = 0; k < kInFlight; k++)
    weft::cas_relaxed(region + weft::reduce(weft::hash(query[k], kSeed), p.cells), uint64_t(0), query[k] | 1);
}

// cas128 is cas64 with 128 bits. The instruction requires Hopper. On older GPUs the host omits this
// limit.
template <uint32_t kInFlight>
__device__ __forceinline__ void cas128(const Params& p) {
#if __CUDA_ARCH__ >= 900
  Word128* region = reinterpret_cast<Word128*>(p.region);
  uint64_t query[kInFlight];
#pragma unroll
  for (uint32_t k = 0; k < kInFlight; k++) query[k] = weft::load_once(p.queries + query_index<1, kInFlight>(k));
#pragma unroll
  for (uint32_t k = 0; k < kInFlight; k++)
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

// roofline_queries writes the queries: consecutive numbers, which the hash randomizes.
extern "C" __global__ void __launch_bounds__(kBlock) roofline_queries(Params p) {
  uint64_t i = weft::thread_index();
  if (i < p.count) weft::store_once(const_cast<uint64_t*>(p.queries) + i, i);
}

// roofline_empty does nothing. It measures the cost of a launch.
extern "C" __global__ void __launch_bounds__(kBlock) roofline_empty(Params p) {}
