// Keys that are longer than 64 bits are rows of words, and get numbers: the same row the same number.
//
// A thread that finds no number for a row takes one that nobody has, writes the row's words, and then puts the number into the
// index, by a compare-and-swap that releases them: who reads a number acquires its words, and compares them all. A number whose
// place another thread has taken is kept for the thread's next row, also from launch to launch.
#pragma once

#include "value.cuh"

namespace weft::groups {

// A place in an index, of a hash and a number: the upper half of the hash, and one more than the number.
__device__ __forceinline__ uint64_t placed(uint64_t h, uint32_t number) { return h >> 32 << 32 | (number + 1); }
__device__ __forceinline__ uint32_t number_of(uint64_t place) { return uint32_t(place) - 1; }

__device__ __forceinline__ uint64_t hash_row(const NumberParams& p, uint64_t row) {
  uint64_t h = 0;
  for (uint32_t w = 0; w < p.index.words; w++) h = hash(h ^ key_word(p.keys, p.nkeys, w, row), p.index.seed);
  return h;
}

__device__ __forceinline__ bool same_row(const NumberParams& p, const uint64_t* words, uint64_t row) {
  for (uint32_t w = 0; w < p.index.words; w++) {
    if (words[w] != key_word(p.keys, p.nkeys, w, row)) return false;
  }
  return true;
}

// number_row is the number of a row, of which there is one at the latest when it returns. The index has room.
__device__ __forceinline__ uint32_t number_row(const NumberParams& p, uint64_t row, uint32_t& spare) {
  const Index& x = p.index;
  const uint64_t h = hash_row(p, row);
  uint32_t at = reduce(uint32_t(h), x.slots);
  bool written = false;
  for (uint32_t i = 0; i < x.slots; i++) {
    uint64_t there = load_acquire(x.places + at);
    if (there == 0) {
      if (spare == kNone) spare = add_relaxed(p.used, 1u);
      uint64_t* words = x.rows + uint64_t(spare) * x.words;
      for (uint32_t w = 0; !written && w < x.words; w++) words[w] = key_word(p.keys, p.nkeys, w, row);
      written = true;
      there = cas_acq_rel(x.places + at, 0ul, placed(h, spare));
      if (there == 0) {
        const uint32_t mine = spare;
        spare = kNone;
        return mine;
      }
    }
    if (there >> 32 == h >> 32 && same_row(p, x.rows + uint64_t(number_of(there)) * x.words, row)) return number_of(there);
    if (++at == x.slots) at = 0;
  }
  return kNone;
}

__device__ __forceinline__ void number(const NumberParams& p) {
  uint32_t spare = p.spare[thread_index()];
  for (uint64_t row = thread_index(); row < p.n; row += threads_in_grid()) {
    uint32_t n = kNone;
    if (is_meant(p.filter, p.keys, p.nkeys, row)) n = number_row(p, row, spare);
    p.numbers[row] = n;
  }
  p.spare[thread_index()] = spare;
}

// reindex puts the numbers of an index into another, which has room.
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
