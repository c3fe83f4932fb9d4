// Kernels of package horton: Horton tables. doc.go explains the structure, and layout.go explains
// the memory. weft/evict.cuh, weft/horton_remap.cuh and weft/locks.cuh prove that the kernels are
// correct.
//
// A tile is a few neighboring lanes of a warp. It works on one key at a time, and its lanes read
// the key's buckets together. All 32 lanes of a warp execute each warp-wide vote, even if their
// tiles have finished.
#include "change.cuh"
#include "weft/entry.cuh"

namespace weft::horton {

// ---- lookups ---------------------------------------------------------------

template <class S, class K, class V, int Pieces>
__device__ __forceinline__ void get(const GetParams<Table>& p) {
  using Tile = BucketTile<S, kLanes, Pieces>;
  using Key = typename S::Key;
  find_keys<Tile, K, V, kLanes>(
      p, [&](bool there, Path path, Key key, Key& value) { return find_once<Tile>(p.table, there, path, key, value); });
}

// get_of_eight looks up keys in buckets of eight slots. If slots may be pending, it uses get.
template <class S, class K, class V>
__device__ __forceinline__ void get_of_eight(const GetParams<Table>& p) {
  constexpr int pieces = sizeof(typename S::Word) == 16 ? kWidePieces : kNarrowPieces;
  if constexpr (S::kTwoStep) return get<S, K, V, pieces>(p);
  using Key = typename S::Key;
  find_keys<BucketTile<S, kLanes, pieces>, K, V, BucketRounds<S>::kLanes>(
      p, [&](bool there, Path path, Key key, Key& value) { return find_of_eight<S>(p.table, there, path, key, value); });
}

// ---- whole tables ----------------------------------------------------------

// Stored reports whether a slot of a table holds a key. It stores the key in `key`, as the user
// passed it.
template <class S>
struct Stored {
  const Table& t;
  __device__ __forceinline__ bool operator()(uint32_t line, uint32_t slot, typename S::Word w, typename S::Key& key) const {
    constexpr uint32_t per_line = kLineBytes / sizeof(typename S::Word);
    const bool extra = line == t.nlines;
    if (S::key(w) >= S::kNone || (!extra && Array<S>::is(w))) return false;
    key = key_at<S>(t, S::key(w), line * per_line + slot, extra);
    return true;
  }
};

// reclaim moves keys back to their primary buckets, one bucket per thread.
template <class S, class K>
__device__ __forceinline__ void reclaim(const ReclaimParams& p) {
  const Table& t = p.table;
  begin_moving(t);
  Moves<Moved<S>> moves{t};
  for (uint64_t i = p.lo + thread_index(); i < p.hi; i += threads_in_grid()) {
    uint32_t bucket = uint32_t(i);
    if (p.keys) {
      const Path path = Place<S>(t, typename S::Key(Column<K>::read_once(p.keys, i, p.narrow & kNarrowKeys))).path;
      if (path.extra()) continue;
      bucket = path.bucket;
    }
    if (!Array<S>::is(load_relaxed(slots_of<S>(t) + ((bucket + 1) << t.shift) - 1))) continue;
    uint32_t* const lock = lock_of(t, bucket);
    for (bool open = true; open;) {
      if (!try_lock(lock)) {
        pause(kPause);
        continue;
      }
      Moved<S>::reclaim(moves, bucket);
      unlock(lock);
      open = false;
    }
  }
  moves.count();
  end_moving(t);
}

// census computes the sums that Stats reports, one bucket per thread.
template <class S>
__device__ __forceinline__ void census(const StatsParams& p) {
  const Table& t = p.table;
  uint64_t sums[5] = {};
  for (uint64_t b = thread_index(); b < t.buckets; b += threads_in_grid()) {
    const auto last = load_relaxed(slots_of<S>(t) + ((b + 1) << t.shift) - 1);
    const bool is_b = Array<S>::is(last);
    if (is_b) sums[0]++, sums[1] += Array<S>::entries(last);
    bool free = false;
    for (uint64_t i = b << t.shift; i < (b + 1) << t.shift; i++) {
      const auto w = load_relaxed(slots_of<S>(t) + i);
      free |= is_free<S>(w);
      if (S::key(w) >= S::kNone || Array<S>::is(w) || path_at<S>(t, S::key(w), uint32_t(i)).bucket == b) continue;
      sums[2]++, sums[3] += is_b;
    }
    sums[4] += !free;
  }
  for (int i = 0; i < 5; i++)
    if (sums[i] != 0) add_relaxed(p.sums + i, sums[i]);
}

}  // namespace weft::horton

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::horton;
WEFT_SHARED_WIDTHS;

WEFT_KERNEL(horton_get, kGetBlocks)(GetParams<Table> p) { get<S, K, V, kNarrowPieces>(p); }
WEFT_KERNEL(horton_get_of_eight, sizeof(S::Word) == 16 ? kWideRoundBlocks : kRoundBlocks)(GetParams<Table> p) { get_of_eight<S, K, V>(p); }
WEFT_KERNEL(horton_change, kChangeBlocks)(ChangeParams<Table> p) { change_batch<Narrow<S>, K, V>(p); }
WEFT_KERNEL(horton_change_of_eight, sizeof(S::Word) == 16 ? kWideRoundBlocks : kRoundBlocks)(ChangeParams<Table> p) { change_batch_of_eight<S, K, V>(p); }
WEFT_KERNEL(horton_evict, kEvictBlocks)(EvictParams<Table> p) { evict_batch<Moved<S>, K, V, void, kBlock>(p); }
WEFT_KERNEL(horton_displace, sizeof(S::Word) == 16 ? kEvictBlocks : kDisplaceBlocks)(EvictParams<Table> p) { displace_batch<Moved<S>, K, V>(p); }
WEFT_DUPLICATES(horton)
WEFT_KERNEL(horton_export, 1)(ExportParams<Table> p) {
  export_live<S, K, V>(p.to, slots_of<S>(p.table), p.table.nlines, Stored<S>{p.table});
}
WEFT_KERNEL(horton_rehash, kEvictBlocks)(RehashParams<Table> p) {
  rehash_lines<Moved<S>, kBlock>(p, Stored<S>{p.from});
}
WEFT_KERNEL(horton_reclaim, kEvictBlocks)(ReclaimParams p) { reclaim<S, K>(p); }
WEFT_KERNEL(horton_stats, 1)(StatsParams p) { census<S>(p); }
#if WEFT_KEY_BITS + WEFT_VALUE_BITS > 32  // sixteen slots of 4 bytes have only 64 bytes
WEFT_KERNEL(horton_get_wide, kGetBlocks)(GetParams<Table> p) { get<S, K, V, kWidePieces>(p); }
WEFT_KERNEL(horton_change_wide, kChangeBlocks)(ChangeParams<Table> p) { change_batch<Wide<S>, K, V>(p); }
#endif
