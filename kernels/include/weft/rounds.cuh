// Lookups in buckets of eight slots, the default size, round by round, for structures with keys in
// one of two buckets.
//
// Random reads of buckets are so fast that a warp has some 400 instructions for its 32 keys before
// they take longer than its reads. So the warp does as little as possible, and each lane works for
// its own key. In a round each tile reads a whole bucket at once, for one of its lanes. The reads
// of all rounds are issued before the first bucket is examined. What lanes find for each other is
// dealt out once after the last round, in fewer steps than rounds. A second bucket, which few keys
// need, is computed by their lanes at the same time, and read in rounds again, without those that
// no lane needs.
#pragma once

#include "tile.cuh"

namespace weft {

// BucketRounds reads buckets of eight slots S: 64 bytes, a tile of four lanes, unless they are
// smaller, or larger. In a round each tile has the key of one of its lanes. So all keys of a warp
// take as many rounds as tiles have lanes. With Few, rounds that no lane needs are skipped. All
// lanes of the warp must call each method.
template <class Slots, bool Few = false>
struct BucketRounds {
  using S = Slots;
  using Word = typename S::Word;
  using Key = typename S::Key;
  static constexpr uint32_t kSlots = 8, kBytes = kSlots * sizeof(Word), kPer = 16 / sizeof(Word);
  static constexpr uint32_t kLanes = kBytes < 64 ? kBytes / 16 : 4, kPieces = kBytes / 16 / kLanes;
  static constexpr uint32_t kMask = (1u << kLanes) - 1;

  // read loads the bucket of each lane's key, by its number; kAll: the lane has none.
  __device__ __forceinline__ void read(const Word* slots, uint32_t bucket, Key key) {
    if constexpr (Few) asking = ballot(kAll, bucket != kAll);
#pragma unroll
    for (uint32_t r = 0; r < kLanes; r++) {
      if (!has(r)) continue;
      keys[r] = shuffle_in<kLanes>(kAll, key, r);
      const uint32_t number = shuffle_in<kLanes>(kAll, bucket, r);
      const Word128* const from = reinterpret_cast<const Word128*>(slots + uint64_t(number) * kSlots) + rank;
#pragma unroll
      for (uint32_t v = 0; v < kPieces; v++) {
        Word128& whole = buckets[r][v].whole;
        whole = {0, 0};  // never used for a tile without a key
        if (number != kAll) whole = load_relaxed(from + v * kLanes);
      }
    }
  }
  // find reports whether a lane's key is in its bucket, which it has read, and returns the value.
  __device__ __forceinline__ bool find(const Word* slots, uint32_t bucket, Key key, Key& value) const {
    Key held[kLanes];
    uint32_t votes[kLanes];
#pragma unroll
    for (uint32_t r = 0; r < kLanes; r++) {
      held[r] = 0, votes[r] = 0;
      if (!has(r)) continue;
      bool match = false;
      each(r, [&](Word w) {
        if (S::key(w) == keys[r]) match = true, held[r] = S::value(w);
      });
      votes[r] = ballot(kAll, match);
    }
    if constexpr (S::kHasValue) value = dealt(held);
    const uint32_t lanes = mine(votes);
    return (lanes & (lanes - 1)) == 0 ? lanes != 0 : find_again(slots, bucket, key, value);
  }
  // any reports whether a slot of a lane's bucket satisfies `is`.
  template <class F>
  __device__ __forceinline__ bool any(F is) const {
    uint32_t votes[kLanes];
#pragma unroll
    for (uint32_t r = 0; r < kLanes; r++) {
      votes[r] = 0;
      if (!has(r)) continue;
      bool some = false;
      each(r, [&](Word w) { some |= is(w); });
      votes[r] = ballot(kAll, some);
    }
    return mine(votes) != 0;
  }
  // slots returns bits(word) for the slots of a lane's bucket, a few bits eight apart: those of
  // slot n are shifted by n.
  template <class F>
  __device__ __forceinline__ uint32_t slots(F bits) const {
    uint32_t seen[kLanes];
#pragma unroll
    for (uint32_t r = 0; r < kLanes; r++) {
      seen[r] = 0;
      if (!has(r)) continue;
      uint32_t n = 0;
      each(r, [&](Word w) { seen[r] |= bits(w, keys[r]) << (n / kPer * kLanes * kPer + n % kPer), n++; });
      seen[r] <<= rank * kPer;
    }
    return dealt(seen);
  }
  // last returns the last slot of a lane's bucket.
  __device__ __forceinline__ Word last() const {
    Word words[kLanes];
#pragma unroll
    for (uint32_t r = 0; r < kLanes; r++) {
      words[r] = S::pair(0, 0);
      if (has(r)) words[r] = shuffled(buckets[r][kPieces - 1].slots[kPer - 1], kLanes - 1);
    }
    return own(words);
  }

 private:
  union Piece {
    Word128 whole;
    Word slots[kPer];
    __device__ Piece() {}
  };
  uint32_t rank = lane_index() % kLanes, asking = kAll;
  Piece buckets[kLanes][kPieces];  // this lane's part of a bucket, per round
  Key keys[kLanes];

  // has reports whether a lane needs a round.
  __device__ __forceinline__ bool has(uint32_t r) const { return !Few || (asking & uint32_t(0xffffffffull / kMask) << r) != 0; }

  template <class F>
  __device__ __forceinline__ void each(uint32_t r, F f) const {
#pragma unroll
    for (uint32_t v = 0; v < kPieces; v++)
#pragma unroll
      for (uint32_t j = 0; j < kPer; j++) f(buckets[r][v].slots[j]);
  }
  // find_again searches a bucket slot by slot. Lanes read one after the other: during deletes and
  // insertions they may see a key in two slots, with two values. If it is in none now, it has been
  // absent meanwhile, or moves.
  __device__ __forceinline__ bool find_again(const Word* slots, uint32_t bucket, Key key, Key& value) const {
    bool found = false;
#pragma unroll 1
    for (uint32_t i = 0; i < kSlots && !found && bucket != kAll; i++) {
      const Word w = load_relaxed(slots + uint64_t(bucket) * kSlots + i);
      if (S::key(w) == key) found = true, value = S::value(w);
    }
    return found;
  }
  // own returns the element of a lane's own round.
  template <class T>
  __device__ __forceinline__ T own(const T (&of)[kLanes]) const {
    T x = of[0];
#pragma unroll
    for (uint32_t r = 1; r < kLanes; r++)
      if (rank == r) x = of[r];
    return x;
  }
  // mine returns the votes of a lane's tile in its own round.
  __device__ __forceinline__ uint32_t mine(const uint32_t (&votes)[kLanes]) const {
    return own(votes) >> (lane_index() - rank) & kMask;
  }
  // dealt returns to each lane what the lanes of its tile have for its round; at most one of those
  // is not 0. Half of the rounds change sides, then half of those that are left.
  template <class T, uint32_t Half = kLanes / 2>
  __device__ __forceinline__ T dealt(T (&of)[kLanes]) const {
#pragma unroll
    for (uint32_t r = 0; r < Half; r++) {
      const bool upper = rank & Half;
      const T low = of[r], high = of[r + Half];  // a choice among registers
      of[r] = (upper ? high : low) | shuffle_xor(kAll, upper ? low : high, Half);
    }
    if constexpr (Half > 1) return dealt<T, Half / 2>(of);
    return of[0];
  }
  __device__ static __forceinline__ uint32_t shuffled(uint32_t w, uint32_t from) { return shuffle_in<kLanes>(kAll, w, from); }
  __device__ static __forceinline__ uint64_t shuffled(uint64_t w, uint32_t from) { return shuffle_in<kLanes>(kAll, w, from); }
  __device__ static __forceinline__ Word128 shuffled(Word128 w, uint32_t from) {
    return {shuffle_in<kLanes>(kAll, w.x, from), shuffle_in<kLanes>(kAll, w.y, from)};
  }
};

}  // namespace weft
