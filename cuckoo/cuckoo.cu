// Kernels of package cuckoo: a bucketized cuckoo hash table. doc.go explains the structure, and
// layout.go explains the memory. weft/path.cuh, weft/evict.cuh and weft/locks.cuh prove that the
// kernels are correct.
//
// A tile is a few neighboring lanes of a warp. It works on one key at a time, and its lanes read
// the key's buckets together. All 32 lanes of a warp execute each warp-wide vote, even if their
// tiles have finished.
#include "change.cuh"
#include "weft/entry.cuh"

namespace weft::cuckoo {

// ---- lookups ---------------------------------------------------------------

template <class PathTile, class K, class V, int Lanes>
__device__ __forceinline__ void get(const GetParams<Table>& p) {
  using Key = typename PathTile::S::Key;
  find_keys<PathTile, K, V, Lanes>(
      p, [&](bool there, Path path, Key key, Key& value) { return find_along<PathTile>(p.table, there, path, key, value); });
}

// get_of_eight looks up keys in two buckets of eight slots. If slots may be pending, it uses get.
template <class S, class K, class V>
__device__ __forceinline__ void get_of_eight(const GetParams<Table>& p) {
  if constexpr (S::kTwoStep) return get<PathTile<S, kWideLanes>, K, V, kWideLanes>(p);
  using Key = typename S::Key;
  find_keys<PathTile<S, kWideLanes>, K, V, BucketRounds<S>::kLanes>(
      p, [&](bool there, Path path, Key key, Key& value) { return find_of_eight<S>(p.table, there, path, key, value); });
}

// ---- whole tables ----------------------------------------------------------

template <class PathTile>
__device__ __forceinline__ void rehash(const RehashParams<Table>& p) {
  using S = typename PathTile::S;
  rehash_lines<Rules<S, PathTile>, kBlock>(p, Named<S, S::kNone>{p.from.nlines});
}

// census computes the sums that Stats reports, one bucket per thread.
template <class S>
__device__ __forceinline__ void census(const StatsParams& p) {
  const Table& t = p.table;
  const uint32_t slots = 1u << t.shift, line = kLineBytes / sizeof(typename S::Word);
  uint64_t passed = 0, full = 0, stashed = 0;
  for (uint64_t b = thread_index(); b < t.buckets; b += threads_in_grid()) {
    bool empty = false;
    for (uint32_t i = 0; i < slots; i++) {
      const auto key = S::key(load_relaxed(slots_of<S>(t) + (b << t.shift) + i));
      empty |= key == S::kEmpty;
      if (key >= S::kNone) continue;
      const Path path = path_of<S>(t, key);
      uint32_t at = 0;
      while (at + 1 < t.functions && path.bucket(t, at) != b) at++;
      passed += at;
    }
    full += !empty;
  }
  for (uint64_t i = thread_index(); i < uint64_t(t.stash) * line; i += threads_in_grid())
    stashed += S::key(load_relaxed(slots_of<S>(t) + uint64_t(t.nlines - t.stash) * line + i)) < S::kNone;
  if (passed != 0) add_relaxed(p.sums, passed);
  if (full != 0) add_relaxed(p.sums + 1, full);
  if (stashed != 0) add_relaxed(p.sums + 2, stashed);
}

}  // namespace weft::cuckoo

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::cuckoo;
WEFT_SHARED_WIDTHS;
using Narrow = PathTile<S, kNarrowLanes>;
using Wide = PathTile<S, kWideLanes>;
using Even = PathTile<S, kWideLanes, true>;

WEFT_KERNEL(cuckoo_get, kGetBlocks)(GetParams<Table> p) { get<Narrow, K, V, kNarrowLanes>(p); }
WEFT_KERNEL(cuckoo_get_wide, kGetBlocks)(GetParams<Table> p) { get<Wide, K, V, kWideLanes>(p); }
WEFT_KERNEL(cuckoo_get_of_eight, sizeof(S::Word) == 16 ? kWideRoundBlocks : kRoundBlocks)(GetParams<Table> p) { get_of_eight<S, K, V>(p); }
WEFT_KERNEL(cuckoo_get_all, kGetBlocks)(GetParams<Table> p) { get<BothTile<S, kWideLanes>, K, V, kWideLanes>(p); }
WEFT_KERNEL(cuckoo_change, kChangeBlocks)(ChangeParams<Table> p) { change_batch<Narrow, K, V>(p); }
WEFT_KERNEL(cuckoo_change_wide, kChangeBlocks)(ChangeParams<Table> p) { change_batch<Wide, K, V>(p); }
WEFT_KERNEL(cuckoo_change_of_eight, sizeof(S::Word) == 16 ? kWideRoundBlocks : kRoundBlocks)(ChangeParams<Table> p) { change_batch_of_eight<S, K, V, false>(p); }
WEFT_KERNEL(cuckoo_even_of_eight, sizeof(S::Word) == 16 ? kWideRoundBlocks : kRoundBlocks)(ChangeParams<Table> p) { change_batch_of_eight<S, K, V, true>(p); }
WEFT_KERNEL(cuckoo_change_even, kChangeBlocks)(ChangeParams<Table> p) { change_batch<Even, K, V>(p); }
WEFT_KERNEL(cuckoo_displace, sizeof(S::Word) == 16 ? kEvictBlocks : kDisplaceBlocks)(EvictParams<Table> p) { displace_batch<S, K, V>(p); }
WEFT_KERNEL(cuckoo_evict, kEvictBlocks)(EvictParams<Table> p) { evict_batch<Evicts<S>, K, V, void, kBlock>(p); }
WEFT_DUPLICATES(cuckoo)
WEFT_KERNEL(cuckoo_export, 1)(ExportParams<Table> p) {
  export_live<S, K, V>(p.to, slots_of<S>(p.table), p.table.nlines, Named<S, S::kNone>{p.table.nlines});
}
WEFT_KERNEL(cuckoo_rehash, kEvictBlocks)(RehashParams<Table> p) { rehash<Wide>(p); }
WEFT_KERNEL(cuckoo_rehash_even, kEvictBlocks)(RehashParams<Table> p) { rehash<Even>(p); }
WEFT_KERNEL(cuckoo_stats, 1)(StatsParams p) { census<S>(p); }
