// Numbers for keys longer than 64 bits. Such a key is a row of words, and equal rows have equal
// numbers.
//
// One kernel looks up the numbers from earlier launches, without memory ordering. It lists the rows
// that have no number yet. Another kernel numbers the listed rows. A thread takes an unused number
// and writes the words of the row. Then it inserts the number into the index by a compare-and-swap
// that releases the words. A thread that reads a number acquires its words and compares all of
// them. If another thread has filled the entry first, a thread keeps its number for its next row,
// also from launch to launch.
#pragma once

#include "value.cuh"

namespace weft::groups {

// An entry of an index holds the upper half of a hash, and a number plus one.
__device__ __forceinline__ uint64_t placed(uint64_t h, uint32_t number) { return h >> 32 << 32 | (number + 1); }
__device__ __forceinline__ uint32_t number_of(uint64_t place) { return uint32_t(place) - 1; }

// Words holds the first two words of a row, and the hash of the row.
struct Words {
  uint64_t first, second;
  uint64_t hash;
};

__device__ __forceinline__ uint64_t word_of(const NumberParams& p, const Words& v, uint32_t w, uint64_t row) {
  return w == 0 ? v.first : w == 1 ? v.second : key_word(p.keys, p.nkeys, w, row);
}

__device__ __forceinline__ Words words_of(const NumberParams& p, uint64_t row) {
  Words v{key_word(p.keys, p.nkeys, 0, row), 0, 0};
  if (p.index.words > 1) v.second = key_word(p.keys, p.nkeys, 1, row);
  for (uint32_t w = 0; w < p.index.words; w++) v.hash = hash(v.hash ^ word_of(p, v, w, row), p.index.seed);
  return v;
}

// has reports whether an entry holds the number of a row with the same words.
__device__ __forceinline__ bool has(const NumberParams& p, uint64_t place, const Words& v, uint64_t row) {
  if (place >> 32 != v.hash >> 32) return false;
  const uint64_t* words = p.index.rows + uint64_t(number_of(place)) * p.index.words;
  for (uint32_t w = 0; w < p.index.words; w++) {
    if (words[w] != word_of(p, v, w, row)) return false;
  }
  return true;
}

// find_row returns the number that an earlier launch assigned to a row, or kNone.
__device__ __forceinline__ uint32_t find_row(const NumberParams& p, uint64_t row) {
  const Index& x = p.index;
  const Words v = words_of(p, row);
  uint32_t at = reduce(uint32_t(v.hash), x.slots);
  for (uint32_t i = 0; i < x.slots; i++) {
    const uint64_t there = x.places[at];
    if (there == 0) return kNone;
    if (has(p, there, v, row)) return number_of(there);
    if (++at == x.slots) at = 0;
  }
  return kNone;
}

// find looks up the numbers of rows. It lists the rows that have no number.
__device__ __forceinline__ void find(const NumberParams& p) {
  const uint64_t end = (uint64_t(p.n) + kWarp - 1) / kWarp * kWarp;
  for (uint64_t row = thread_index(); row < end; row += threads_in_grid()) {
    const bool meant = row < p.n && matches_filter(p.filter, p.keys, p.nkeys, row);
    uint32_t n = kNone;
    if (meant) n = find_row(p, row);
    if (row < p.n) p.numbers[row] = n;
    const bool missing = meant && n == kNone;
    const uint32_t all = ballot(kAll, missing), lane = lane_index();
    if (all == 0) continue;
    uint32_t at = 0;
    if (lane == 0) at = add_relaxed(p.count, popcount(all));
    at = shuffle(kAll, at, 0) + popcount(all & ((1u << lane) - 1));
    if (missing) p.missing[at] = uint32_t(row);
  }
}

// number_row returns the number of a row, and numbers the row if necessary. The index must have a
// free entry.
__device__ __forceinline__ uint32_t number_row(const NumberParams& p, uint64_t row, uint32_t& spare) {
  const Index& x = p.index;
  const Words v = words_of(p, row);
  uint32_t at = reduce(uint32_t(v.hash), x.slots);
  bool written = false;
  for (uint32_t i = 0; i < x.slots; i++) {
    uint64_t there = load_acquire(x.places + at);
    if (there == 0) {
      if (spare == kNone) spare = add_relaxed(p.used, 1u);
      uint64_t* words = x.rows + uint64_t(spare) * x.words;
      for (uint32_t w = 0; !written && w < x.words; w++) words[w] = word_of(p, v, w, row);
      written = true;
      there = cas_acq_rel(x.places + at, 0ul, placed(v.hash, spare));
      if (there == 0) {
        const uint32_t mine = spare;
        spare = kNone;
        return mine;
      }
    }
    if (has(p, there, v, row)) return number_of(there);
    if (++at == x.slots) at = 0;
  }
  return kNone;
}

// number numbers the listed rows.
__device__ __forceinline__ void number(const NumberParams& p) {
  const uint32_t n = *p.count;
  uint32_t spare = p.spare[thread_index()];
  for (uint64_t i = thread_index(); i < n; i += threads_in_grid()) {
    const uint32_t row = p.missing[i];
    p.numbers[row] = number_row(p, row, spare);
  }
  p.spare[thread_index()] = spare;
}

// reindex inserts the numbers of an index into another index, which must have enough capacity.
__device__ __forceinline__ void reindex(const ReindexParams& p) {
  for (uint64_t i = thread_index(); i < p.from.slots; i += threads_in_grid()) {
    const uint64_t place = p.from.places[i];
    if (place == 0) continue;
    const uint64_t* words = p.from.rows + uint64_t(number_of(place)) * p.from.words;
    uint64_t h = 0;
    for (uint32_t w = 0; w < p.from.words; w++) h = hash(h ^ words[w], p.to.seed);
    uint32_t at = reduce(uint32_t(h), p.to.slots);
    for (uint32_t tries = 0; tries < p.to.slots && cas_relaxed(p.to.places + at, 0ul, placed(h, number_of(place))) != 0; tries++) {
      if (++at == p.to.slots) at = 0;
    }
  }
}

}  // namespace weft::groups
