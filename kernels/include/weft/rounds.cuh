// Lookups in buckets of eight slots, the default size, for structures in which a key is in one of
// two buckets. A warp reads the buckets in rounds.
//
// Random reads of buckets are fast: a warp can execute some 400 instructions for its 32 keys during
// its reads. With more, the instructions take longer than the reads. So the warp does as little as
// possible, and each lane works for its own key.
//
// In a round, each tile reads a whole bucket at once for one of its lanes. The reads of all rounds
// are issued before the first bucket is examined. After the last round, lanes exchange what they
// have found for each other, in fewer steps than rounds. Few keys need a second bucket. Their lanes
// compute it at the same time, and rounds read it, except rounds that no lane needs.
#pragma once

#include "tile.cuh"

namespace weft {

// BucketRounds reads buckets of eight slots S. A bucket of 64 bytes is read by a tile of four
// lanes. For a smaller bucket the tile has two lanes, and for a larger bucket each lane reads two
// pieces. In a round each tile reads the bucket of one of its lanes, so a read takes as many rounds
// as a tile has lanes. With Few, rounds that no lane needs are skipped. All lanes of the warp must
// call each method.
template <class Slots, bool Few = false>
struct BucketRounds {
  using S = Slots;
  using Word = typename S::Word;
  using Key = typename S::Key;
  static constexpr uint32_t kSlots = 8, kBytes = kSlots * sizeof(Word), kPer = 16 / sizeof(Word);
  static constexpr uint32_t kLanes = kBytes < 64 ? kBytes / 16 : 4, kPieces = kBytes / 16 / kLanes;
  static constexpr uint32_t kMask = (1u << kLanes) - 1;

  // read loads the bucket of each lane's key. bucket is the number of the bucket, or kAll if the
  // lane has none.
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
  // find reports whether the key of a lane is in the bucket that read has loaded, and stores the
  // value.
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
  // slots returns the bits of all slots of a lane's bucket. bits(word, key) returns bits for one
  // slot at positions that are multiples of eight. For slot n, the result has these bits shifted
  // left by n.
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
  Piece buckets[kLanes][kPieces];  // this lane's parts of the buckets, by round
  Key keys[kLanes];

  // has reports whether any lane needs round r.
  __device__ __forceinline__ bool has(uint32_t r) const { return !Few || (asking & uint32_t(0xffffffffull / kMask) << r) != 0; }

  template <class F>
  __device__ __forceinline__ void each(uint32_t r, F f) const {
#pragma unroll
    for (uint32_t v = 0; v < kPieces; v++)
#pragma unroll
      for (uint32_t j = 0; j < kPer; j++) f(buckets[r][v].slots[j]);
  }
  // find_again searches a bucket slot by slot. Lanes read their parts of a bucket at different
  // times. So during deletes and insertions, they may find a key in two slots, with two values. If
  // the key is in no slot now, it was absent during the search, or it is moving.
  __device__ __forceinline__ bool find_again(const Word* slots, uint32_t bucket, Key key, Key& value) const {
    bool found = false;
#pragma unroll 1
    for (uint32_t i = 0; i < kSlots && !found && bucket != kAll; i++) {
      const Word w = load_relaxed(slots + uint64_t(bucket) * kSlots + i);
      if (S::key(w) == key) found = true, value = S::value(w);
    }
    return found;
  }
  // own returns the element for the lane's own round.
  template <class T>
  __device__ __forceinline__ T own(const T (&of)[kLanes]) const {
    T x = of[0];
#pragma unroll
    for (uint32_t r = 1; r < kLanes; r++)
      if (rank == r) x = of[r];
    return x;
  }
  // mine returns the votes of the lane's tile in the lane's own round.
  __device__ __forceinline__ uint32_t mine(const uint32_t (&votes)[kLanes]) const {
    return own(votes) >> (lane_index() - rank) & kMask;
  }
  // dealt returns the OR of of[r] over all lanes of the tile, where r is the round of the calling
  // lane. In each step, lanes exchange half of the remaining rounds.
  template <class T, uint32_t Half = kLanes / 2>
  __device__ __forceinline__ T dealt(T (&of)[kLanes]) const {
#pragma unroll
    for (uint32_t r = 0; r < Half; r++) {
      const bool upper = rank & Half;
      const T low = of[r], high = of[r + Half];  // selects among registers
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
