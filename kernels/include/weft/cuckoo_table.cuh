// Memory layout of package cuckoo (Go twin: cuckoo/layout.go), and how tiles read it.
#pragma once

#include "hash.cuh"
#include "lines.cuh"
#include "path.cuh"

namespace weft::cuckoo {

// ---- the table -------------------------------------------------------------

// Table describes a table. It is passed to kernels by value.
struct Table {
  Word128* lines;      // nlines + 1 lines of 128 bytes; the last has keys that look like sentinels
  Counters* counters;
  uint32_t* locks;     // lock_mask + 1 locks (locks.cuh)
  uint64_t seed;
  uint32_t nlines;     // number of lines of buckets and stash
  uint32_t stash;      // number of stash lines, the last of nlines
  uint32_t buckets;
  uint32_t functions;  // buckets per key: 2; 4 if they have one slot; 1 in a table of one bucket
  uint32_t shift;      // a bucket has 1 << shift slots
  uint32_t lock_mask;
  uint32_t balances;   // not 0: a new key goes to the bucket with the most free slots
  uint32_t unused;
};

// slots_of returns the address of the first slot of a table.
template <class S>
__device__ __forceinline__ typename S::Word* slots_of(const Table& t) {
  return reinterpret_cast<typename S::Word*>(t.lines);
}

// Constants of the hash functions, see layout.go.
constexpr uint64_t kSecondSeed = 0x9e3779b97f4a7c15;
constexpr uint32_t kThirdSeed = 0x85ebca6b, kFourthSeed = 0xc2b2ae35, kStashSeed = 0x27d4eb2f;

// Path holds the first two buckets of a key. For a key that looks like a sentinel, it holds the
// key's slot in the extra line.
struct Path {
  static constexpr uint32_t kExtra = kAll;
  uint32_t first, second;

  __device__ __forceinline__ Path of(uint32_t lane) const {
    return {shuffle(kAll, first, lane), shuffle(kAll, second, lane)};
  }
  __device__ __forceinline__ bool extra() const { return first == kExtra; }
  // bucket returns bucket number i of the path.
  __device__ __forceinline__ uint32_t bucket(const Table& t, uint32_t i) const {
    if (i < 2) return i == 0 ? first : second;
    return reduce(mix(i == 2 ? kThirdSeed : kFourthSeed), t.buckets);
  }
  // stash_line returns the line of the stash in which the key may be.
  __device__ __forceinline__ uint32_t stash_line(const Table& t) const {
    return t.nlines - t.stash + reduce(mix(kStashSeed), t.stash);
  }

 private:
  __device__ __forceinline__ uint32_t mix(uint32_t seed) const {
    return hash(first ^ (second << 16 | second >> 16), uint64_t(seed));
  }
};

template <class S>
__device__ __forceinline__ typename S::Key stored(typename S::Key key) {
  return key >= S::kNone ? ~key : key;
}
template <class S>
__device__ __forceinline__ Path path_of(const Table& t, typename S::Key key) {
  using Key = typename S::Key;
  if (key >= S::kNone) return {Path::kExtra, uint32_t(~key)};
  const Key h = hash(key, t.seed);
  Path path{uint32_t(reduce(h, Key(t.buckets))), uint32_t(reduce(hash(h, t.seed ^ kSecondSeed), Key(t.buckets - 1)))};
  if (path.second >= path.first && t.buckets > 1) path.second++;
  return path;
}

// ---- a tile reads a path ---------------------------------------------------

// parts_shift returns log2 of the number of steps per bucket. A step reads a window of
// 2^window_shift slots.
__device__ __forceinline__ uint32_t parts_shift(const Table& t, uint32_t window_shift) {
  return t.shift > window_shift ? t.shift - window_shift : 0;
}

// Balanced chooses the bucket with the most free slots, and the first of equal buckets.
template <uint32_t WindowShift>
struct Balanced {
  uint32_t spare = kUnseen, first = kUnseen, now = 0, most = 0;

  __device__ __forceinline__ void see(const Table& t, uint32_t step, uint32_t frees, bool over) {
    const uint32_t last = (1u << parts_shift(t, WindowShift)) - 1;
    if ((step & last) == 0) now = 0, first = kUnseen;
    if (frees != 0 && first == kUnseen) first = step;
    now += frees;
    if ((over || (step & last) == last) && now > most) most = now, spare = first;
  }
};

// Span is what a step reads: the slots from number `from` on. Slots [lo,hi) belong to the bucket.
struct Span {
  uint64_t from, lo, hi;
  bool stash;
};

// PathTile reads the buckets of a path, and then a line of the stash. Each lane reads 16 bytes per
// step, so a step covers a bucket or a part of one. Slots outside the path's buckets read as kNone,
// a sentinel that is never stored. Free slots of the stash also read as kNone, because they take a
// key only if no bucket does (cuckoo_evict.cuh).
template <class Slots, int Lanes, bool Balances = false>
struct PathTile : Tile<Slots, Lanes, 1> {
  using S = Slots;
  using Table = cuckoo::Table;
  using Path = cuckoo::Path;
  using Base = Tile<S, Lanes, 1>;
  static constexpr int kPieces = 1, kWindow = Lanes * Base::kSlots;  // slots per step
  static constexpr uint32_t kWindowShift = __builtin_ctz(kWindow);
  static constexpr bool kRevives = false, kCounts = Balances;
  static constexpr uint32_t kLine = kLineBytes / sizeof(typename S::Word);  // slots per line
  template <bool B, class>
  struct Choose {
    using Type = FirstFree;
  };
  template <class T>
  struct Choose<true, T> {
    using Type = Balanced<kWindowShift>;
  };
  using Choice = typename Choose<Balances, void>::Type;

  __device__ static __forceinline__ Path path(const Table& t, typename S::Key key) { return path_of<S>(t, key); }
  __device__ static __forceinline__ typename S::Key stored(const Table&, typename S::Key key) { return cuckoo::stored<S>(key); }
  __device__ __forceinline__ bool ends(const Table& t) const { return !t.balances; }

  // behind returns the first step after the steps of the buckets.
  __device__ static __forceinline__ uint32_t behind(const Table& t) { return t.functions << parts_shift(t, kWindowShift); }
  __device__ __forceinline__ uint32_t steps(const Table& t, Path path) const {
    return path.extra() ? 1 : behind(t) + (t.stash != 0 ? kLine / kWindow : 0);
  }
  __device__ static __forceinline__ Span span(const Table& t, Path path, uint32_t step) {
    if (path.extra()) {
      const uint64_t at = uint64_t(t.nlines) * kLine + path.second;
      return {at, at, at + 1, false};
    }
    const uint32_t parts = parts_shift(t, kWindowShift);
    if (step < behind(t)) {
      const uint64_t at = uint64_t(path.bucket(t, step >> parts)) << t.shift;
      return {at + (step & ((1u << parts) - 1)) * kWindow, at, at + (1u << t.shift), false};
    }
    const uint64_t at = uint64_t(path.stash_line(t)) * kLine;
    return {at + (step - behind(t)) * kWindow, at, at + kLine, true};
  }
  // first returns the first slot of a span that this lane reads.
  __device__ __forceinline__ uint64_t first(const Span& s) const {
    return s.from / Base::kSlots * Base::kSlots + this->rank * Base::kSlots;
  }
  __device__ __forceinline__ void load(const Table& t, Path path, uint32_t step) {
    load_span(t, span(t, path, step), this->piece[0]);
  }
  __device__ static __forceinline__ void exchange_load(const Table&, uint32_t) {}
  __device__ __forceinline__ void load_span(const Table& t, const Span& s, typename Base::Piece& piece) const {
    const uint64_t at = first(s);
    if (at < s.hi) piece.whole = load_relaxed(reinterpret_cast<Word128*>(slots_of<S>(t) + at));
#pragma unroll
    for (int j = 0; j < Base::kSlots; j++) {
      const bool free = S::key(piece.slots[j]) == S::kEmpty || S::key(piece.slots[j]) == S::kDead;
      if (at + j < s.lo || at + j >= s.hi || (s.stash && free)) piece.slots[j] = S::pair(S::kNone, 0);
    }
  }
  __device__ __forceinline__ typename S::Word* slot(const Table& t, Path path, uint32_t step, int number) const {
    return slots_of<S>(t) + first(span(t, path, step)) + number;
  }
};

// BothTile reads two buckets of a path per step, for lookups.
template <class Slots, int Lanes>
struct BothTile : Tile<Slots, Lanes, 2> {
  using S = Slots;
  using Table = cuckoo::Table;
  using Path = cuckoo::Path;
  using One = PathTile<S, Lanes>;

  __device__ __forceinline__ bool ends(const Table&) const { return false; }
  // pairs returns the number of steps that read buckets.
  __device__ static __forceinline__ uint32_t pairs(const Table& t) {
    return (t.functions + 1) / 2 << parts_shift(t, One::kWindowShift);
  }
  __device__ __forceinline__ uint32_t steps(const Table& t, Path path) const {
    return path.extra() ? 1 : pairs(t) + One().steps(t, path) - One::behind(t);
  }
  __device__ __forceinline__ void load(const Table& t, Path path, uint32_t step) {
    const uint32_t parts = parts_shift(t, One::kWindowShift), part = step & ((1u << parts) - 1);
    const bool buckets = step < pairs(t) && !path.extra();
    const uint32_t first = buckets ? (step >> parts << (parts + 1)) + part : One::behind(t) + step - pairs(t);
    const uint32_t second = first + (1u << parts);
    read(t, One::span(t, path, first), 0);
    read(t, buckets && second < One::behind(t) ? One::span(t, path, second) : Span{0, 0, 0, false}, 1);
  }

 private:
  __device__ __forceinline__ void read(const Table& t, const Span& s, int v) {
    typename One::Base::Piece piece;
    piece.whole = {0, 0};
    One().load_span(t, s, piece);
    this->piece[v].whole = piece.whole;
  }
};

// Possible numbers of lanes of a tile. Each lane reads 16 bytes, so a tile reads a sector, or the
// 64 bytes of eight slots of 32-bit pairs. The host chooses by the load and the size of buckets.
constexpr int kNarrowLanes = 2, kWideLanes = 4;

}  // namespace weft::cuckoo
