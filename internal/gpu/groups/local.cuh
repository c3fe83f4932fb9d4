// The local table of a block in shared memory. The table consists of arrays. Each array has one
// element per cell, and one more element for the key with all bits set.
#pragma once

#include "value.cuh"

namespace weft::groups {

struct Local {
  uint32_t base;   // address in shared memory
  uint32_t cells;  // an odd number, so that arrays are aligned to words

  __device__ __forceinline__ uint32_t places() const { return cells + 1; }
  __device__ __forceinline__ Shared<uint64_t> key(uint32_t cell) const { return {base + 8 * cell}; }
  // The number of the record that has the key of the cell.
  __device__ __forceinline__ Shared<uint32_t> record(uint32_t cell) const { return {base + 8 * places() + 4 * cell}; }
  __device__ __forceinline__ Shared<uint32_t> count(uint32_t cell) const { return {base + 12 * places() + 4 * cell}; }
  // The word of a field that takes one word.
  __device__ __forceinline__ Shared<uint64_t> word(uint32_t at, uint32_t cell) const { return {base + at + 8 * cell}; }
  // A sum of integers takes four arrays: one array for each half of its two words. The reason is
  // that shared memory adds 32 bits at a time.
  __device__ __forceinline__ Shared<uint32_t> half(uint32_t at, uint32_t which, uint32_t cell) const {
    return {base + at + 4 * (which * places() + cell)};
  }
};

// The offset of the only field in the kernel for one sum.
__device__ __forceinline__ uint32_t first_field(const Local& l) { return 16 * l.places(); }

// add_halves adds v to a word that is stored as two halves.
__device__ __forceinline__ void add_halves(Shared<uint32_t> low, Shared<uint32_t> high, uint64_t v) {
  const uint32_t x = uint32_t(v), old = add_relaxed(low, x);
  const uint32_t rest = uint32_t(v >> 32) + (old + x < old ? 1 : 0);
  if (rest != 0) add_relaxed(high, rest);
}

__device__ __forceinline__ void add_parts(const Local& l, uint32_t at, uint32_t cell, Parts v) {
  add_halves(l.half(at, 0, cell), l.half(at, 1, cell), v.low);
  if (v.high != 0) add_halves(l.half(at, 2, cell), l.half(at, 3, cell), v.high);
}

__device__ __forceinline__ uint64_t read_halves(Shared<uint32_t> low, Shared<uint32_t> high) {
  return uint64_t(load_weak(high)) << 32 | load_weak(low);
}

__device__ __forceinline__ void raise(Shared<uint64_t> p, uint64_t v) {
  if (v > load_relaxed(p)) max_relaxed(p, v);
}

// find_local searches for a key, which must not be the key with all bits set. It returns the cell
// of the key, a free cell for the key, or kNone. missing reports whether the returned cell is free.
__device__ __forceinline__ uint32_t find_local(const Local& l, uint64_t key, uint64_t h, bool& missing) {
  const uint32_t step = uint32_t(h >> 32) | 1;
  uint32_t low = uint32_t(h);
  missing = false;
  for (uint32_t i = 0; i < kLocalProbes; i++, low += step) {
    const uint32_t cell = reduce(low, l.cells);
    const uint64_t there = load_relaxed(l.key(cell));
    if (there == key) return cell;
    missing = there == 0;
    if (missing) return cell;
  }
  return kNone;
}

}  // namespace weft::groups
