// Memory layout of package linear (also in Go: linear/layout.go), and how tiles read it.
#pragma once

#include "hash.cuh"
#include "lines.cuh"
#include "path.cuh"

namespace weft::linear {

constexpr uint32_t kSectorBytes = 32;

// ---- the table -------------------------------------------------------------

// Table is passed by value to every kernel.
struct Table {
  Word128* lines;  // nlines + 1 lines; the last holds keys that look like sentinels
  Counters* counters;
  uint64_t seed;
  uint32_t nlines;
  uint32_t max_lines;  // maximum length of a path, in lines
};

// slots_of returns the first slot of a table.
template <class S>
__device__ __forceinline__ typename S::Word* slots_of(const Table& t) {
  return reinterpret_cast<typename S::Word*>(t.lines);
}

// locate returns the home sector of a key, as an index in the table. Keys that look like sentinels
// are in the extra line. There, stored returns their complements.
template <class S>
__device__ __forceinline__ uint32_t locate(const Table& t, typename S::Key key) {
  using Key = typename S::Key;
  if (key >= S::kPending) return t.nlines * 4;
  return uint32_t(reduce(hash(key, t.seed), Key(t.nlines) * 4));
}
template <class S>
__device__ __forceinline__ typename S::Key stored(typename S::Key key) {
  return key >= S::kPending ? ~key : key;
}

// Path is the order in which a search for a key reads sectors. It begins with the home sector, and
// then the other sectors of that line (index xor 1, 2, 3). The next line follows in the same order,
// and so on around the table. A read of an aligned group of 1, 2 or 4 sectors keeps this order. So
// kernels with different read widths agree on the order.
struct Path {
  uint32_t home;

  __device__ __forceinline__ Path of(uint32_t lane) const { return {shuffle(kAll, home, lane)}; }

  __device__ __forceinline__ uint32_t line() const { return home / 4; }
  __device__ __forceinline__ uint32_t sector() const { return home % 4; }

  // piece returns the index of half a sector of the path, in pieces of 16 bytes.
  __device__ __forceinline__ uint64_t piece(const Table& t, uint32_t ordinal, uint32_t half) const {
    uint32_t at = line() + ordinal / 4;
    if (at >= t.nlines && line() != t.nlines) at -= t.nlines;
    return uint64_t(at) * 8 + (sector() ^ ordinal % 4) * 2 + half;
  }
  // steps returns the length of the path in groups of `sectors` sectors. The extra line is a path
  // by itself.
  __device__ __forceinline__ uint32_t steps(const Table& t, uint32_t sectors) const {
    return (line() == t.nlines ? 1 : t.max_lines) * 4 / sectors;
  }
};

// ---- tiles that read a path ------------------------------------------------

// PathTile reads groups of Lanes * Pieces * 16 bytes along a path.
template <class Slots, int Lanes, int Pieces>
struct PathTile : Tile<Slots, Lanes, Pieces> {
  using S = Slots;
  using Table = linear::Table;
  using Path = linear::Path;
  using Choice = FirstFree;
  using Base = Tile<S, Lanes, Pieces>;
  using typename Base::Piece;
  static constexpr int kPieces = Pieces, kSectors = Lanes * Pieces / 2;
  static constexpr bool kRevives = true, kCounts = false;

  __device__ static __forceinline__ Path path(const Table& t, typename S::Key key) { return {locate<S>(t, key)}; }
  __device__ static __forceinline__ typename S::Key stored(const Table&, typename S::Key key) { return linear::stored<S>(key); }
  __device__ __forceinline__ uint32_t steps(const Table& t, Path path) const { return path.steps(t, kSectors); }
  __device__ __forceinline__ bool ends(const Table&) const { return true; }

  __device__ __forceinline__ Piece* at(const Table& t, Path path, uint32_t step, int v) const {
    uint32_t number = v * Lanes + this->rank;
    return reinterpret_cast<Piece*>(t.lines) + path.piece(t, step * kSectors + number / 2, number % 2);
  }
  __device__ __forceinline__ typename S::Word* slot(const Table& t, Path path, uint32_t step, int number) const {
    return &at(t, path, step, number / this->kSlots)->slots[number % this->kSlots];
  }
  __device__ __forceinline__ void load(const Table& t, Path path, uint32_t step) {
#pragma unroll
    for (int v = 0; v < Pieces; v++) this->piece[v].whole = load_relaxed(&at(t, path, step, v)->whole);
  }
  __device__ static __forceinline__ void exchange_load(const Table&, uint32_t) {}
};

// Sector is a sector of a path that one lane reads by itself.
template <class S>
struct Sector {
  using Word = typename S::Word;
  static constexpr int kSlots = kSectorBytes / sizeof(Word);

  Word128* place;
  typename Tile<S, 1, 2>::Piece piece[2];

  __device__ __forceinline__ Sector(const Table& t, Path path, uint32_t ordinal) : place(t.lines + path.piece(t, ordinal, 0)) {
    piece[0].whole = load_relaxed(place), piece[1].whole = load_relaxed(place + 1);
  }

  // ByTwoLanes makes a warp read one sector for each of its lanes. For each sector, two lanes read
  // one half each at the same time, so the memory receives one access per sector instead of two.
  // All lanes take part, each with any sector.
  struct ByTwoLanes {};
  __device__ __forceinline__ Sector(ByTwoLanes, const Table& t, Path path, uint32_t ordinal)
      : place(t.lines + path.piece(t, ordinal, 0)) {
    const uint32_t odd = lane_index() % 2;
    auto others = reinterpret_cast<Word128*>(shuffle_xor(kAll, uint64_t(place), 1));
    // this lane's half of the even lane's sector
    Word128 of_even = load_relaxed((odd ? others : place) + odd);
    Word128 of_odd = load_relaxed((odd ? place : others) + odd);
    Word128 got{shuffle_xor(kAll, odd ? of_even.x : of_odd.x, 1), shuffle_xor(kAll, odd ? of_even.y : of_odd.y, 1)};
    piece[0].whole = {odd ? got.x : of_even.x, odd ? got.y : of_even.y};
    piece[1].whole = {odd ? of_odd.x : got.x, odd ? of_odd.y : got.y};
  }

  __device__ __forceinline__ Word* at(int slot) const { return reinterpret_cast<Word*>(place) + slot; }
  // each calls f(slot, word) from the last slot to the first.
  template <class F>
  __device__ __forceinline__ void each(F f) const {
#pragma unroll
    for (int i = kSlots - 1; i >= 0; i--) f(i, piece[2 * i / kSlots].slots[i % (kSlots / 2)]);
  }
};

// Number of lanes in a tile, and of 16-byte pieces that a lane reads at a time. The host chooses by
// load. The table has 10^9 operations per second on one H200, for 10^8 keys of 32 bits with 32-bit
// values (lab/NOTES.md has all tables):
//
//	operations   load  2 lanes, 1 piece  4 lanes, 1 piece  4 lanes, 2 pieces
//	hits         0.5               38.1              37.4               30.4
//	insertions   0.5               14.8              14.7               13.1
//	misses       0.8               11.6              13.9               18.6
//	hits         0.8               30.1              30.7               29.0
//	misses       0.9                3.3               4.5                6.8
//
// A bare gather reaches 38.7. Eight lanes of one piece were never better.
//
// Narrow: two lanes read one sector of 32 bytes.
constexpr int kNarrowLanes = 2, kNarrowPieces = 1;

// Wide: four lanes read a whole line of 128 bytes.
constexpr int kWideLanes = 4, kWidePieces = 2;

// kFindAlone is the number of sectors that a lane reads by itself in find_warp of a Ref, before
// tiles continue. It applies to tables in the L2 cache. It was measured in batches. With four
// sectors, lookups of 2^20 keys at load 0.8 were a fifth slower. With one sector, lookups of 2^16
// keys at load 0.5 were a fifth slower.
constexpr uint32_t kFindAlone = 2;

}  // namespace weft::linear
