// Lookups in buckets of eight slots, round by round: of structures whose keys lie in one of two
// buckets, for the default size of these.
//
// Random reads of buckets come at such a rate that a lookup has some 400 instructions of a warp for
// its 32 keys, before they take longer than its reads. So a round does as little as it can: a tile
// reads a whole bucket at once, all of whose slots count; the reads of all first buckets are on
// their way before the first one is looked at; and what few keys need, the second bucket, is
// computed behind that, by the lanes whose keys these are at the same time, and read in as many
// rounds as it takes to deal those keys to all tiles.
#pragma once

#include "tile.cuh"

namespace weft {

// Found is what a lane knows of its key behind a round.
template <class S>
struct Found {
  bool hit = false;
  uint32_t note = 0;
  typename S::Key value = 0;
};

// BucketRounds reads buckets of eight slots S: 64 bytes, a tile of four lanes, unless they are
// smaller, or larger. In a round each tile has one key, and each lane of a tile brings one: so all
// keys of a warp take as many rounds as tiles have lanes.
template <class Slots>
struct BucketRounds {
  using S = Slots;
  using Word = typename S::Word;
  using Key = typename S::Key;
  static constexpr uint32_t kSlots = 8, kBytes = kSlots * sizeof(Word), kPer = 16 / sizeof(Word);
  static constexpr uint32_t kLanes = kBytes < 64 ? kBytes / 16 : 4, kPieces = kBytes / 16 / kLanes;
  static constexpr uint32_t kTiles = kWarp / kLanes, kMask = (1u << kLanes) - 1;

  uint32_t rank = lane_index() % kLanes, base = lane_index() - rank;

  // Bucket is what a lane has of one.
  union Piece {
    Word128 whole;
    Word slots[kPer];
    __device__ Piece() {}
  };
  struct Bucket {
    Piece piece[kPieces];
    __device__ __forceinline__ Word last() const { return piece[kPieces - 1].slots[kPer - 1]; }
    template <class F>
    __device__ __forceinline__ void each(F f) const {
#pragma unroll
      for (uint32_t v = 0; v < kPieces; v++)
#pragma unroll
        for (uint32_t j = 0; j < kPer; j++) f(piece[v].slots[j]);
    }
  };

  // look reads the buckets of the keys of those lanes that ask, for as many rounds as there are such
  // lanes by rank. note(round, bucket, key) is 32 bits that the lane with the last slots of a bucket,
  // or any lane of the tile, tells the one that has asked.
  template <class F>
  __device__ __forceinline__ Found<S> look(const Word* slots, bool asks, uint32_t bucket, Key key, F note) const {
    const uint32_t asking = ballot(kAll, asks);
    Bucket buckets[kLanes];
    Key keys[kLanes];
    Found<S> found;
#pragma unroll
    for (uint32_t r = 0; r < kLanes; r++) {
      if ((asking & round(r)) == 0) continue;
      const uint32_t from = base + r;
      keys[r] = shuffle(kAll, key, from);
      const uint64_t first = uint64_t(shuffle(kAll, bucket, from)) * kSlots;
#pragma unroll
      for (uint32_t v = 0; v < kPieces; v++) {
        Word128& whole = buckets[r].piece[v].whole;
        whole = {0, 0};  // whatever a tile without a key finds here, nobody asks
        if (asking >> from & 1) whole = load_relaxed(reinterpret_cast<const Word128*>(slots + first) + v * kLanes + rank);
      }
    }
#pragma unroll
    for (uint32_t r = 0; r < kLanes; r++) {
      if ((asking & round(r)) == 0) continue;
      bool match = false;
      Key held = 0;
      buckets[r].each([&](Word w) {
        if (S::key(w) == keys[r]) match = true, held = S::value(w);
      });
      const uint32_t matches = ballot(kAll, match) >> base & kMask;
      if constexpr (S::kHasValue) held = shuffle(kAll, held, base + (matches ? lowest(matches) : 0));
      const uint32_t told = note(r, buckets[r], keys[r]);
      if (rank == r) found.hit = matches != 0, found.value = held, found.note = told;
    }
    found.hit = found.hit && asks;
    return found;
  }

  // look_dealt is look for the few keys that need another bucket.
  __device__ __forceinline__ Found<S> look_dealt(const Word* slots, bool asks, uint32_t bucket, Key key) const {
    const Deal<kLanes> deal(asks);
    const uint32_t from = deal.from % kWarp;
    const uint32_t dealt = shuffle(kAll, bucket, from);
    const Key dealt_key = shuffle(kAll, key, from);
    const Found<S> there = look(slots, deal.from < kWarp, dealt, dealt_key, [](uint32_t, const Bucket&, Key) { return 0u; });
    Found<S> found;
    found.hit = asks & shuffle(kAll, uint32_t(there.hit), deal.to);
    if constexpr (S::kHasValue) found.value = shuffle(kAll, there.value, deal.to);
    return found;
  }

 private:
  // round is the lanes whose keys have their turn in a round.
  __device__ static constexpr uint32_t round(uint32_t r) { return uint32_t(0xffffffffull / kMask) << r; }
};

// find_in_two looks up a key per lane that is there, in its first bucket, and where that does not
// have it in the one that second(note), for the lanes that are concerned, says: kAll if there is
// none. All lanes of the warp must call it.
template <class S, class Note, class Second>
__device__ __forceinline__ bool find_in_two(const typename S::Word* slots, bool there, uint32_t first, typename S::Key key,
                                            typename S::Key& value, Note note, Second second) {
  const BucketRounds<S> rounds;
  const Found<S> one = rounds.look(slots, there, first, key, note);
  value = one.value;
  bool hit = one.hit;
  uint32_t next = kAll;
  if (there && !hit) next = second(one.note);
  if (ballot(kAll, next != kAll) != 0) {
    const Found<S> two = rounds.look_dealt(slots, next != kAll, next, key);
    if (two.hit) hit = true, value = two.value;
  }
  return hit;
}

}  // namespace weft
