// Batches of lookups: as they come, or sorted by the first bits of the hashes of their keys, so that those for
// one key follow each other.
#pragma once

#include "weft/gphash_table.cuh"

namespace weft::gphash {

// GetParams are lookups as they come, or in the order of the hashes of their keys.
struct GetParams {
  Table table;
  Lookup lookup;
  const uint64_t* hashes;    // by row; null, as the following: as they come
  const uint32_t* prefixes;  // the first half of each, ascending
  const uint32_t* rows;
};

// same_key reports whether two lookups, by their numbers in the order, are for one key.
__device__ __forceinline__ bool same_key(const GetParams& p, uint64_t a, uint64_t b) {
  const uint64_t x = p.rows[a], y = p.rows[b];
  const uint8_t* keys = static_cast<const uint8_t*>(p.lookup.keys);
  const uint32_t size = p.table.key_size;
  return p.hashes[x] == p.hashes[y] && same_row(keys + x * size, keys + y * size, size);
}

// follows reports whether a lookup is for the key of the one before it. What a hot key has in the
// memory of the host is read once then: thousands of warps get it only one behind the other.
__device__ __forceinline__ bool follows(const GetParams& p, uint64_t at) {
  return p.rows && at > 0 && p.prefixes[at - 1] == p.prefixes[at] && same_key(p, at - 1, at);
}

}  // namespace weft::gphash
