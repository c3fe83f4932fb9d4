// Memory layout of package horton (also in Go: horton/layout.go), and how tiles read it.
#pragma once

#include "hash.cuh"
#include "lines.cuh"
#include "path.cuh"

namespace weft::horton {

// ---- the table -------------------------------------------------------------

// Table is passed by value to every kernel.
struct Table {
  Word128* lines;      // nlines + 1 lines; the last holds keys that look like sentinels
  Counters* counters;
  uint32_t* locks;     // lock_mask + 1 locks, see locks.cuh
  uint64_t seed;
  uint32_t nlines;
  uint32_t buckets;    // even
  uint32_t shift;      // a bucket has 1 << shift slots
  uint32_t lock_mask;
  uint64_t bears;      // with fewer keys, moves find a place for each key
};

// slots_of returns the first slot of a table.
template <class S>
__device__ __forceinline__ typename S::Word* slots_of(const Table& t) {
  return reinterpret_cast<typename S::Word*>(t.lines);
}

// ---- arrays of remap entries -----------------------------------------------

// An entry of three bits selects one of seven functions, see layout.go.
constexpr uint32_t kEntryBits = 3, kFunctions = 7;

// kHalfEntries entries and the type bit fit 8 bytes, and kKeyEntries and the type bit fit 4 bytes.
constexpr uint32_t kHalfEntries = 21, kKeyEntries = 10;

// kKeyTypeBit is the position of the type bit in a key of a set or of a slot of 16 bytes.
// kPairTypeBit is its position in a slot of 8 bytes with key and value.
constexpr uint32_t kKeyTypeBit = 3, kPairTypeBit = 36;

// Array interprets a slot as an array of remap entries.
template <class S>
struct Array {
  using Word = typename S::Word;
  using Key = typename S::Key;
  static constexpr bool kTwoHalves = sizeof(Word) == 16, kIsPair8 = S::kHasValue && !kTwoHalves;
  static constexpr uint32_t kBit = kIsPair8 ? kPairTypeBit : kKeyTypeBit;
  static constexpr Key kKeyBit = Key(1) << (kIsPair8 ? kPairTypeBit - 32 : kKeyTypeBit);
  static constexpr uint32_t kEntries = kTwoHalves ? 2 * kHalfEntries : sizeof(Word) == 4 ? kKeyEntries : kHalfEntries;

  // is reports whether the last slot of a bucket is an array. In an array the type bit is clear,
  // and stored keys and sentinels have it set.
  __device__ static __forceinline__ bool is(Word w) { return (S::key(w) & kKeyBit) == 0; }
  __device__ static __forceinline__ Word none() { return S::pair(0, 0); }

  __device__ static __forceinline__ uint32_t shift(uint32_t tag) {
    if (kTwoHalves && tag >= kHalfEntries) return kEntryBits * (tag - kHalfEntries);
    return kEntryBits * tag + (kEntryBits * tag >= kBit);
  }
  __device__ static __forceinline__ uint32_t entry(Word w, uint32_t tag) {
    if constexpr (kTwoHalves) return uint32_t((tag < kHalfEntries ? w.y : w.x) >> shift(tag)) & kFunctions;
    else return uint32_t(w >> shift(tag)) & kFunctions;
  }
  __device__ static __forceinline__ Word with(Word w, uint32_t tag, uint32_t entry) {
    if constexpr (kTwoHalves) {
      uint64_t& half = tag < kHalfEntries ? w.y : w.x;
      half = (half & ~(uint64_t(kFunctions) << shift(tag))) | uint64_t(entry) << shift(tag);
    } else {
      w = (w & ~(Word(kFunctions) << shift(tag))) | Word(entry) << shift(tag);
    }
    return w;
  }
  // entries returns the number of entries that are not 0.
  __device__ static __forceinline__ uint32_t entries(Word w) {
    uint32_t n = 0;
#pragma unroll 1
    for (uint32_t tag = 0; tag < kEntries; tag++) n += entry(w, tag) != 0;
    return n;
  }
};

// ---- places of keys --------------------------------------------------------

// Constants of the hash functions, see layout.go.
constexpr uint32_t kTagFactor32 = 0x9e3779b1;
constexpr uint64_t kTagFactor64 = 0x9e3779b97f4a7c15, kSecondarySeed = 0x3c6ef372fe94f82a;

// step_of returns the step of a number: one of eight (layout.go). It selects among constants
// instead of reading an array. All lookups of secondary keys would read the one line of such an
// array. They would read it from the L2 cache, because the acquire loads of lookups evict lines
// from the L1 cache.
__device__ __forceinline__ uint32_t step_of(uint64_t number) {
  const bool one = number & 1, two = number & 2, four = number & 4;
  const uint32_t low = two ? (one ? 0x59b44e93u : 0xdf1582b1u) : (one ? 0xc4aaeac1u : 0x1df9fd79u);
  const uint32_t high = two ? (one ? 0x10755c97u : 0xf10637cfu) : (one ? 0x8e317041u : 0xb9a6442fu);
  return four ? high : low;
}

__device__ __forceinline__ uint32_t tag_of(uint32_t mixed, uint32_t entries) { return reduce(mixed * kTagFactor32, entries); }
__device__ __forceinline__ uint32_t tag_of(uint64_t mixed, uint32_t entries) {
  return uint32_t(reduce(mixed * kTagFactor64, uint64_t(entries)));
}

// number_of returns a number that is unique for two twins and a tag. number_hash returns its hash.
__device__ __forceinline__ uint64_t number_of(uint32_t twins, uint32_t tag, uint32_t entries) {
  return uint64_t(twins) * entries + tag;
}
__device__ __forceinline__ uint64_t number_hash(const Table& t, uint64_t number) { return hash(number, t.seed ^ kSecondarySeed); }

// side returns which bucket of a pair of twins holds the keys with a clear type bit.
__device__ __forceinline__ uint32_t side(uint64_t hash, uint32_t twins) { return uint32_t(hash >> 32) * (twins + 1) >> 31; }

// wide returns the shift of secondary buckets. A secondary bucket has at least eight slots, so
// several smaller buckets form one secondary bucket.
constexpr uint32_t kMinShift = 3;
__device__ __forceinline__ uint32_t wide(const Table& t) { return t.shift > kMinShift ? t.shift : kMinShift; }

// secondary returns the first slot of the secondary bucket that function i selects for the keys of
// a primary bucket and tag. i begins with 1.
__device__ __forceinline__ uint32_t secondary(const Table& t, uint32_t bucket, uint32_t tag, uint32_t entries, uint32_t i) {
  const uint64_t number = number_of(bucket / 2, tag, entries), h = number_hash(t, number);
  const uint32_t pairs = uint32_t((uint64_t(t.buckets) << t.shift) >> (wide(t) + 1));
  const uint32_t to = reduce(uint32_t(h) + step_of(number) * i, pairs);
  return (to << 1 | ((bucket & 1) ^ side(h, to))) << wide(t);
}

// Path describes where a key may be: its primary bucket, and the tag that determines its secondary
// bucket. A key that looks like a sentinel has its own slot in the extra line instead.
struct Path {
  static constexpr uint32_t kExtra = kAll, kOwnShift = 2;
  uint32_t bucket, tag;  // or kExtra and the index of the slot

  __device__ __forceinline__ Path of(uint32_t lane) const { return {shuffle(kAll, bucket, lane), shuffle(kAll, tag, lane)}; }
  __device__ __forceinline__ bool extra() const { return bucket == kExtra; }
};

// Place holds the path and the stored form of a user's key. The stored form is the mixed key with
// the type bit set. For a key that looks like a sentinel, it is the index of the key's own slot.
template <class S>
struct Place {
  using Key = typename S::Key;
  Path path;
  Key stored;

  __device__ __forceinline__ Place(const Table& t, Key key) {
    const Key mixed = hash(key, t.seed);
    const uint32_t bit = (mixed & Array<S>::kKeyBit) != 0;
    stored = mixed | Array<S>::kKeyBit;
    if (stored >= S::kNone) {
      stored = ~stored | bit << Path::kOwnShift;
      path = {Path::kExtra, uint32_t(stored)};
    } else {
      path = {uint32_t(reduce(stored, Key(t.buckets / 2))) << 1 | bit, tag_of(stored, Array<S>::kEntries)};
    }
  }
};

// path_at returns the path of the stored key in a slot of its primary or secondary bucket.
template <class S>
__device__ __forceinline__ Path path_at(const Table& t, typename S::Key stored, uint32_t slot) {
  using Key = typename S::Key;
  const uint32_t twins = uint32_t(reduce(stored, Key(t.buckets / 2))), tag = tag_of(stored, Array<S>::kEntries);
  const uint32_t bucket = slot >> t.shift, at = slot >> wide(t);
  if (twins == bucket / 2) return {bucket, tag};
  return {twins << 1 | ((at & 1) ^ side(number_hash(t, number_of(twins, tag, Array<S>::kEntries)), at / 2)), tag};
}

// key_at returns the user's key of a stored key. slot is where the key is stored. With extra, the
// key is in the extra line.
template <class S>
__device__ __forceinline__ typename S::Key key_at(const Table& t, typename S::Key stored, uint32_t slot, bool extra) {
  using Key = typename S::Key;
  constexpr Key bit = Array<S>::kKeyBit;
  const bool set = extra ? stored >> Path::kOwnShift != 0 : path_at<S>(t, stored, slot).bucket & 1;
  const Key name = extra ? ~(stored & (S::kNone ^ ~Key(0))) : stored;
  return unmix(set ? name | bit : name & ~bit, t.seed);
}

// ---- tiles that read buckets -----------------------------------------------

// BucketTile reads a bucket, or as much of it at a time as its lanes hold. Slots outside the bucket
// read as kNone, a sentinel that is never stored. An array of remap entries matches no key, and is
// not free.
template <class Slots, int Lanes, int Pieces>
struct BucketTile : Tile<Slots, Lanes, Pieces> {
  using S = Slots;
  using Word = typename S::Word;
  using Base = Tile<S, Lanes, Pieces>;
  static constexpr int kWindow = Lanes * Pieces * Base::kSlots;  // number of slots of a step
  static constexpr uint32_t kWindowShift = __builtin_ctz(kWindow);
  static constexpr uint32_t kLine = kLineBytes / sizeof(Word);  // number of slots of a line

  // first slot of the secondary bucket if this lane has read the key's entry, otherwise kAll
  uint32_t next;

  // parts returns the number of steps that it takes to read 1 << shift slots.
  __device__ static __forceinline__ uint32_t parts(uint32_t shift) {
    return shift > kWindowShift ? 1u << (shift - kWindowShift) : 1;
  }
  // first returns the first slot of piece v that this lane reads, in a part of the slots from `lo`
  // on.
  __device__ __forceinline__ uint32_t first(uint32_t lo, uint32_t part, int v) const {
    return (lo + part * kWindow) / Base::kSlots * Base::kSlots + (v * Lanes + this->rank) * Base::kSlots;
  }
  // last_lane returns the lane of the tile that reads the last slot of a primary bucket.
  __device__ static __forceinline__ uint32_t last_lane(const Table& t) {
    const uint32_t slots = t.shift > kWindowShift ? kWindow : 1u << t.shift;
    return (slots - 1) / Base::kSlots % Lanes;
  }
  // read reads a part of a bucket that begins at slot `lo`. With home, it is the primary bucket of
  // the path.
  __device__ __forceinline__ void read(const Table& t, Path path, uint32_t lo, uint32_t part, bool home) {
    const uint32_t hi = lo + (1u << (home ? t.shift : wide(t)));
    next = kAll;
#pragma unroll
    for (int v = 0; v < Pieces; v++) {
      const uint32_t at = first(lo, part, v);
      if (at < hi) this->piece[v].whole = load_relaxed(reinterpret_cast<Word128*>(slots_of<S>(t) + at));
    }
#pragma unroll
    for (int v = 0; v < Pieces; v++) {
      const uint32_t at = first(lo, part, v);
#pragma unroll
      for (int j = 0; j < Base::kSlots; j++) {
        Word& w = this->piece[v].slots[j];
        if (home && at + j + 1 == hi && Array<S>::is(w)) {
          const uint32_t entry = Array<S>::entry(w, path.tag);
          if (entry != 0) next = secondary(t, path.bucket, path.tag, Array<S>::kEntries, entry);
        }
        if (at + j < lo || at + j >= hi) w = S::pair(S::kNone, 0);
      }
    }
  }
  // read_extra reads the slot of a path that is in the extra line.
  __device__ __forceinline__ void read_extra(const Table& t, Path path) {
    const uint64_t at = extra(t, path);
    next = kAll;
#pragma unroll
    for (int v = 0; v < Pieces; v++)
#pragma unroll
      for (int j = 0; j < Base::kSlots; j++) this->piece[v].slots[j] = S::pair(S::kNone, 0);
    if (this->rank == 0) this->piece[0].slots[0] = load_relaxed(slots_of<S>(t) + at);
  }
  __device__ static __forceinline__ uint64_t extra(const Table& t, Path path) {
    return uint64_t(t.nlines) * kLine + path.tag;
  }
};

// PathTile reads the primary bucket of a path for changes. If the bucket has a remap entry for the
// path, it also reads the secondary bucket.
template <class Slots, int Lanes, int Pieces>
struct PathTile : BucketTile<Slots, Lanes, Pieces> {
  using S = Slots;
  using Table = horton::Table;
  using Path = horton::Path;
  using Choice = FirstFree;
  using Base = BucketTile<S, Lanes, Pieces>;
  static constexpr int kPieces = Pieces;
  static constexpr bool kRevives = false, kCounts = false;

  uint32_t second = kAll;  // first slot of the secondary bucket, after the primary is read

  __device__ static __forceinline__ Path path(const Table& t, typename S::Key key) { return Place<S>(t, key).path; }
  __device__ static __forceinline__ typename S::Key stored(const Table& t, typename S::Key key) { return Place<S>(t, key).stored; }
  __device__ __forceinline__ bool ends(const Table&) const { return false; }
  __device__ __forceinline__ uint32_t steps(const Table& t, Path path) const {
    return path.extra() ? 1 : this->parts(t.shift) + (second == kAll ? 0 : this->parts(wide(t)));
  }
  __device__ __forceinline__ void load(const Table& t, Path path, uint32_t step) {
    if (path.extra()) return this->read_extra(t, path);
    const uint32_t parts = this->parts(t.shift);
    if (step < parts) this->read(t, path, path.bucket << t.shift, step, true);
    else this->read(t, path, second, step - parts, false);
  }
  // exchange_load sends the secondary bucket to all lanes of the tile. The lane that reads the last
  // slot of the primary bucket has found it.
  __device__ __forceinline__ void exchange_load(const Table& t, uint32_t step) {
    const uint32_t next = shuffle(kAll, this->next, this->base + this->last_lane(t));
    if (step + 1 == this->parts(t.shift)) second = next;
  }
  __device__ __forceinline__ typename S::Word* slot(const Table& t, Path path, uint32_t step, int number) const {
    if (path.extra()) return slots_of<S>(t) + this->extra(t, path);
    const uint32_t parts = this->parts(t.shift);
    const uint32_t lo = step < parts ? path.bucket << t.shift : second;
    return slots_of<S>(t) + this->first(lo, step < parts ? step : step - parts, number / Base::kSlots) + number % Base::kSlots;
  }
};

// A tile reads 64 bytes at a time with kNarrowPieces, and 128 bytes with kWidePieces. A bucket of
// eight slots of 16 bytes, or of sixteen slots of 8 bytes, has 128 bytes. The host chooses by the
// size of buckets.
constexpr int kLanes = 4, kNarrowPieces = 1, kWidePieces = 2;

}  // namespace weft::horton
