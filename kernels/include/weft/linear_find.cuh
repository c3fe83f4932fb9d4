// Lookups in a table of package linear by tiles.
#pragma once

#include "linear_table.cuh"

namespace weft::linear {

// find looks up a key per lane that is there, by its home and its stored form. All lanes of the
// warp must call it. See find_along.
template <class S, int Lanes, int Pieces>
__device__ __forceinline__ bool find(const Table& t, bool there, uint32_t home, typename S::Key key,
                                     typename S::Key& value) {
  return find_along<PathTile<S, Lanes, Pieces>>(t, there, Path{home}, key, value);
}

}  // namespace weft::linear
