// Kernels of package linear: a lock-free hash table with linear probing over 128-byte lines. doc.go
// explains the structure, and layout.go explains the memory. This file uses the same names.
//
// A tile is a few neighboring lanes of a warp. It works on one key at a time, and its lanes read
// the key's path together. All 32 lanes of a warp execute each warp-wide vote, even if their tiles
// have finished.
#include "cached.cuh"
#include "change.cuh"
#include "weft/entry.cuh"
#include "weft/linear_find.cuh"

namespace weft::linear {

// ---- lookups ---------------------------------------------------------------

template <class S, class K, class V, int Lanes, int Pieces>
__device__ __forceinline__ void get(const GetParams<Table>& p) {
  using Key = typename S::Key;
  Query<S> q = query<S, K, Lanes>(p.lookup, lane_index() % Lanes);
  uint32_t home = locate<S>(p.table, q.key);
  Key key = stored<S>(q.key), value;
  bool hit = find<S, Lanes, Pieces>(p.table, q.there, home, key, value);
  answer<S, V>(p.lookup, q, hit, value);
}

// ---- whole tables ----------------------------------------------------------

// rehash ends early if a key finds no slot. In a crowded region, each later key would search a
// whole path.
template <class S>
__device__ __forceinline__ void rehash(const RehashParams& p) {
  using Word = typename S::Word;
  each_slot<S>(slots_of<S>(p.from), S::kPending, p.lo, p.hi, [&](bool live, Word w, uint32_t line, uint32_t) {
    Operation<S> op{live, kPutNew, line == p.from.nlines ? ~S::key(w) : S::key(w), S::value(w)};
    change_one<S>(p.to, op);
    tally(p.to.counters, op.outcome);
    uint32_t lost = popcount(ballot(kAll, op.outcome == kFull));
    if (lost != 0 && lane_index() == 0) add_relaxed(p.lost, lost);
    return lost == 0 && ballot(kAll, load_relaxed(p.lost) != 0) == 0;
  });
}

// probe_lengths adds up the number of slots before each live key on its path.
template <class S>
__device__ __forceinline__ void probe_lengths(const StatsParams& p) {
  using Word = typename S::Word;
  constexpr uint32_t per_sector = kSectorBytes / sizeof(Word);
  uint64_t sum = 0;
  uint32_t longest = 0;
  each_slot<S>(slots_of<S>(p.table), S::kPending, 0, p.table.nlines, [&](bool live, Word w, uint32_t line, uint32_t slot) {
    if (!live) return true;
    Path path{locate<S>(p.table, S::key(w))};
    uint32_t lines = line - path.line() + (line < path.line() ? p.table.nlines : 0);
    uint32_t length = (lines * 4 + (slot / per_sector ^ path.sector())) * per_sector + slot % per_sector;
    sum += length;
    longest = length > longest ? length : longest;
    return true;
  });
  add_relaxed(p.sum, sum);
  max_relaxed(p.longest, longest);
}

// ---- rehash in place -------------------------------------------------------
//
// inplace.go proves that this is correct. No path crosses a border. So a warp rehashes the lines
// between two borders without other lines, one line after the other.

// borders finds the border of each segment, one segment per warp.
template <class S>
__device__ __forceinline__ void borders(const InPlaceParams& p) {
  using Word = typename S::Word;
  constexpr uint32_t per_line = kLineBytes / sizeof(Word), lines = kWarp / per_line;
  uint32_t lane = lane_index();
  uint64_t warps = threads_in_grid() / kWarp;
  for (uint64_t s = p.lo + thread_index() / kWarp; s < p.hi; s += warps) {
    uint32_t first = uint32_t(s) * kSegment, border = kNoBorder;
    uint32_t end = p.table.nlines - first < kSegment ? p.table.nlines : first + kSegment;
    for (uint32_t line = first; line < end && border == kNoBorder; line += lines) {
      bool empty = false;
      if (line + lane / per_line < end) {
        Word w = load_relaxed(reinterpret_cast<Word*>(p.table.lines) + uint64_t(line) * per_line + lane);
        empty = S::key(w) == S::kEmpty;
      }
      uint32_t votes = ballot(kAll, empty);
      if (votes != 0) border = line + lowest(votes) / per_line;
    }
    if (lane == 0) {
      store_relaxed(p.borders + s, border);
      if (border != kNoBorder) add_relaxed(p.found, 1u);
    }
  }
}

// replace puts the pairs of a line, one per lane, into the first empty slots of their paths. No
// other warp accesses these lines.
template <class S>
__device__ __forceinline__ void replace(const Table& t, bool live, typename S::Word w) {
  using Word = typename S::Word;
  constexpr uint32_t per_sector = kSectorBytes / sizeof(Word);
  Path path{live ? locate<S>(t, S::key(w)) : 0};
  uint32_t slot = 0;  // index of a slot on the path
  while (ballot(kAll, live) != 0) {
    if (live) {
      Word* at = reinterpret_cast<Word*>(t.lines + path.piece(t, slot / per_sector, 0)) + slot % per_sector;
      Word held = load_relaxed(at);
      if (S::key(held) != S::kEmpty) slot++;
      else live = !S::swap(at, held, w);
    }
  }
}

// in_place works on segments [lo,hi), one segment per warp. It rehashes the lines after the
// segment's border, up to and including the next border.
template <class S>
__device__ __forceinline__ void in_place(const InPlaceParams& p) {
  using Word = typename S::Word;
  constexpr uint32_t per_line = kLineBytes / sizeof(Word);
  const Table& t = p.table;
  uint32_t lane = lane_index();
  uint64_t warps = threads_in_grid() / kWarp, dropped = 0;
  for (uint64_t s = p.lo + thread_index() / kWarp; s < p.hi; s += warps) {
    uint32_t line = load_relaxed(p.borders + s);
    if (line == kNoBorder) continue;
    uint32_t end = kNoBorder;
    for (uint32_t next = uint32_t(s); end == kNoBorder;) {  // ends at s itself at the latest
      if (++next == p.segments) next = 0;
      end = load_relaxed(p.borders + next);
    }
    bool dirty = false;  // a slot after the last border has become empty
    do {
      if (++line == t.nlines) line = 0;
      Word* at = reinterpret_cast<Word*>(t.lines) + uint64_t(line) * per_line + lane;
      Word w = S::pair(S::kPending, 0);
      if (lane < per_line) w = load_relaxed(at);
      uint32_t dead = popcount(ballot(kAll, S::key(w) == S::kDead));
      dropped += dead;
      dirty |= dead != 0;
      if (dirty) {
        if (S::key(w) == S::kDead || S::key(w) < S::kPending) store_relaxed(at, S::pair(S::kEmpty, S::kEmpty));
        sync_warp();  // before the lanes read each other's slots
        replace<S>(t, S::key(w) < S::kPending, w);
        sync_warp();  // before the next line of this or another run is read
      }
      if (ballot(kAll, S::key(w) == S::kEmpty) != 0) dirty = false;
    } while (line != end);
  }
  if (lane == 0 && dropped != 0) add_relaxed(&t.counters->used, uint64_t(0) - dropped);
}

}  // namespace weft::linear

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::linear;
WEFT_SHARED_WIDTHS;

WEFT_KERNEL(linear_get, kGetBlocks)(GetParams<Table> p) { get<S, K, V, kNarrowLanes, kNarrowPieces>(p); }
WEFT_KERNEL(linear_get_wide, kGetBlocks)(GetParams<Table> p) { get<S, K, V, kWideLanes, kWidePieces>(p); }
WEFT_KERNEL(linear_change, kChangeBlocks)(ChangeParams<Table> p) { change_batch<S, K, V, kNarrowLanes, kNarrowPieces>(p); }
WEFT_KERNEL(linear_change_wide, kChangeBlocks)(ChangeParams<Table> p) { change_batch<S, K, V, kWideLanes, kWidePieces>(p); }
WEFT_KERNEL(linear_get_cached, kGetCachedBlocks)(GetParams<Table> p) { get_cached<S, K, V>(p); }
WEFT_KERNEL(linear_change_cached, kChangeCachedBlocks)(ChangeParams<Table> p) { change_cached<S, K, V>(p); }
WEFT_DUPLICATES(linear)
WEFT_KERNEL(linear_export, 1)(ExportParams<Table> p) {
  export_live<S, K, V>(p.to, slots_of<S>(p.table), p.table.nlines, Named<S, S::kPending>{p.table.nlines});
}
WEFT_KERNEL(linear_rehash, 1)(RehashParams p) { rehash<S>(p); }
WEFT_KERNEL(linear_borders, 1)(InPlaceParams p) { borders<S>(p); }
WEFT_KERNEL(linear_in_place, 1)(InPlaceParams p) { in_place<S>(p); }
WEFT_KERNEL(linear_stats, 1)(StatsParams p) { probe_lengths<S>(p); }
