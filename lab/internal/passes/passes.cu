// Lookups in a table of package horton with buckets of eight 8-byte slots, in three ways. passes.go
// explains the ways. The table does not change meanwhile, so the kernels do not check whether keys
// have moved.
#include "weft/entry.cuh"
#include "weft/horton_find.cuh"

namespace weft::horton {

// The number of threads per block, and the number of blocks that must fit on a multiprocessor. Both
// are the same as for these lookups in package horton.
constexpr int kBlock = 256, kBlocks = 4;

using S = Pair8;
using Key = S::Key;

struct LookParams {
  Table table;
  const uint32_t* keys;
  uint32_t* vals;
  uint8_t* found;
  // lookups that continue in a secondary bucket: number of the bucket in the upper half, and index
  // of the key in the lower half
  uint64_t* work;
  uint32_t* listed;  // number of these lookups
  uint32_t n;
  uint32_t unused;
};

// each calls f(i, there) for the keys of a batch, one per lane. The lanes of a warp call it
// together.
template <class F>
__device__ __forceinline__ void each(uint64_t n, F f) {
  for (uint64_t i = thread_index(); i - lane_index() < n; i += threads_in_grid()) f(uint32_t(i), i < n);
}

__device__ __forceinline__ void answer(const LookParams& p, uint32_t i, bool hit, Key value) {
  store_once(p.vals + i, hit ? value : 0);
  store_once(p.found + i, uint8_t(hit));
}

// primary reads the primary buckets of the lanes' keys. If the lookup of a key continues, second is
// the secondary bucket. Otherwise second is kAll, and primary reports whether it has found value.
__device__ __forceinline__ bool primary(const Table& t, bool there, const Place<S>& place, Key& value, uint32_t& second) {
  using A = Array<S>;
  const Path own = place.path;
  const bool looks = there && !own.extra();
  const S::Word* const slots = slots_of<S>(t);
  BucketRounds<S> rounds;
  rounds.read(slots, looks ? own.bucket : kAll, place.stored);
  bool hit = rounds.find(slots, looks ? own.bucket : kAll, place.stored, value) && looks;
  const S::Word array = rounds.last();
  const uint32_t entry = looks && !hit && A::is(array) ? A::entry(array, own.tag) : 0;
  second = entry != 0 ? secondary(t, own.bucket, own.tag, A::kEntries, entry) / rounds.kSlots : kAll;
  if (there && own.extra()) {
    const S::Word w = load_relaxed(slots + uint64_t(t.nlines) * (kLineBytes / sizeof(w)) + own.tag);
    hit = S::key(w) == place.stored, value = S::value(w);
  }
  return hit;
}

// begin reads the primary buckets of the lanes' keys, and writes the results of lookups that end
// there. For other lookups, second is the bucket in which they continue. late is the mask of lanes
// with such a lookup.
__device__ __forceinline__ Key begin(const LookParams& p, uint32_t i, bool there, uint32_t& second, uint32_t& late) {
  const Place<S> place(p.table, there ? load_once(p.keys + i) : 0);
  Key value = 0;
  const bool hit = primary(p.table, there, place, value, second);
  if (there && second == kAll) answer(p, i, hit, value);
  late = ballot(kAll, second != kAll);
  return place.stored;
}

// rank returns the number of lanes in the mask before the calling one.
__device__ __forceinline__ uint32_t rank(uint32_t lanes) { return popcount(lanes & ((1u << lane_index()) - 1)); }

// beyond looks for a key in a secondary bucket.
__device__ __forceinline__ bool beyond(const Table& t, uint32_t bucket, Key stored, Key& value) {
  BucketRounds<S> rounds;
  rounds.read(slots_of<S>(t), bucket, stored);
  return rounds.find(slots_of<S>(t), bucket, stored, value) && bucket != kAll;
}

// Queue holds the keys of a warp with lookups that continue in secondary buckets.
struct Queue {
  uint32_t i[2 * kWarp], bucket[2 * kWarp];
  Key stored[2 * kWarp];
};

// run looks up the last n keys of a queue, one per lane, and writes the results.
__device__ __forceinline__ void run(const LookParams& p, const Queue& q, uint32_t& waiting, uint32_t n) {
  const uint32_t lane = lane_index();
  waiting -= n;
  sync_warp();  // makes the entries of other lanes visible
  const bool there = lane < n;
  const uint32_t at = waiting + (there ? lane : 0), i = q.i[at], bucket = there ? q.bucket[at] : kAll;
  const Key stored = q.stored[at];
  sync_warp();  // all lanes have read their entries, which may now be overwritten
  Key value = 0;
  const bool hit = beyond(p.table, bucket, stored, value);
  if (there) answer(p, i, hit, value);
}

}  // namespace weft::horton

using namespace weft;
using namespace weft::horton;

// passes_at_once reads secondary buckets directly after the primary buckets of the same keys.
extern "C" __global__ void __launch_bounds__(kBlock, kBlocks) passes_at_once(LookParams p) {
  each(p.n, [&](uint32_t i, bool there) {
    const Place<S> place(p.table, there ? load_once(p.keys + i) : 0);
    Key value = 0;
    const bool hit = find_of_eight<S>(p.table, there, place.path, place.stored, value);
    if (there) answer(p, i, hit, value);
  });
}

// passes_buffered makes each warp collect keys with lookups that continue in secondary buckets. The
// warp reads the secondary buckets of 32 keys at a time.
extern "C" __global__ void __launch_bounds__(kBlock, kBlocks) passes_buffered(LookParams p) {
  __shared__ Queue queues[kBlock / kWarp];
  Queue& q = queues[thread_in_block() / kWarp];
  uint32_t waiting = 0;
  each(p.n, [&](uint32_t i, bool there) {
    uint32_t second, late;
    const Key stored = begin(p, i, there, second, late);
    if (second != kAll) {
      const uint32_t at = waiting + rank(late);
      q.i[at] = i, q.bucket[at] = second, q.stored[at] = stored;
    }
    waiting += popcount(late);
    if (waiting >= kWarp) run(p, q, waiting, kWarp);
  });
  if (waiting != 0) run(p, q, waiting, waiting);
}

// passes_first reads primary buckets, and lists the lookups that continue. The next launch,
// passes_second, reads secondary buckets.
extern "C" __global__ void __launch_bounds__(kBlock, kBlocks) passes_first(LookParams p) {
  each(p.n, [&](uint32_t i, bool there) {
    uint32_t second, late, at = 0;
    begin(p, i, there, second, late);
    if (late != 0 && lane_index() == lowest(late)) at = add_relaxed(p.listed, popcount(late));
    if (late != 0) at = shuffle(kAll, at, lowest(late)) + rank(late);
    if (second != kAll) store_once(p.work + at, uint64_t(second) << 32 | i);
  });
}

extern "C" __global__ void __launch_bounds__(kBlock, kBlocks) passes_second(LookParams p) {
  each(load_relaxed(p.listed), [&](uint32_t at, bool there) {
    const uint64_t item = there ? load_once(p.work + at) : 0;
    const uint32_t i = uint32_t(item), bucket = there ? uint32_t(item >> 32) : kAll;
    const Place<S> place(p.table, there ? load_once(p.keys + i) : 0);
    Key value = 0;
    const bool hit = beyond(p.table, bucket, place.stored, value);
    if (there) answer(p, i, hit, value);
  });
}
