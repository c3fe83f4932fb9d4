// Batches of lookups. They are unsorted, or sorted by the first bits of the hashes of their keys.
// In a sorted batch, lookups for one key are adjacent.
#pragma once

#include "weft/gphash_table.cuh"

namespace weft::gphash {

// GetParams are lookups in batch order, or in the order of the hashes of their keys.
struct GetParams {
  Table table;
  Lookup lookup;
  const uint64_t* hashes;    // hash of each row; null, like the pointers below, if unsorted
  const uint32_t* prefixes;  // upper half of each hash, ascending
  const uint32_t* rows;
};

// same_key reports whether lookups number a and b in sorted order have the same key.
__device__ __forceinline__ bool same_key(const GetParams& p, uint64_t a, uint64_t b) {
  const uint64_t x = p.rows[a], y = p.rows[b];
  const uint8_t* keys = static_cast<const uint8_t*>(p.lookup.keys);
  const uint32_t size = p.table.key_size;
  return p.hashes[x] == p.hashes[y] && same_row(keys + x * size, keys + y * size, size);
}

// follows reports whether a lookup repeats the key of the previous lookup. Repeated lookups do not
// read host memory. Otherwise thousands of warps would read the memory of a hot key, one after the
// other.
__device__ __forceinline__ bool follows(const GetParams& p, uint64_t at) {
  return p.rows && at > 0 && p.prefixes[at - 1] == p.prefixes[at] && same_key(p, at - 1, at);
}

// look_up calls get(item, row of the value or null) for one lookup per kThreads threads, which are
// a warp or a single thread. It reports whether the key is present. It skips repeated lookups, and
// threads without a lookup.
template <uint32_t kThreads, class F>
__device__ __forceinline__ bool look_up(const GetParams& p, F get) {
  const Table& t = p.table;
  const Lookup& l = p.lookup;
  const uint64_t at = thread_index() / kThreads;
  if (at >= l.n || follows(p, at)) return false;
  const uint64_t i = p.rows ? p.rows[at] : at;
  const uint8_t* key = static_cast<const uint8_t*>(l.keys) + i * t.key_size;
  uint8_t* value = l.vals ? static_cast<uint8_t*>(l.vals) + i * t.value_size : nullptr;
  const bool hit = get(item_of(t, key, p.hashes ? p.hashes[i] : hash_row(t, key)), value);
  if (l.found && (kThreads == 1 || lane_index() == 0)) store_once(l.found + i, uint8_t(hit));
  return hit;
}

}  // namespace weft::gphash
