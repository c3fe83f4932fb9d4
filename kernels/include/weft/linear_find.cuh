// Tiles look up keys in a table of package linear.
#pragma once

#include "linear_table.cuh"

namespace weft::linear {

// find looks up one key for each lane with `there`, by find_along. home is where the path of the
// key begins, and key is in stored form. All lanes of the warp must call it.
template <class S, int Lanes, int Pieces>
__device__ __forceinline__ bool find(const Table& t, bool there, uint32_t home, typename S::Key key,
                                     typename S::Key& value) {
  return find_along<PathTile<S, Lanes, Pieces>>(t, there, Path{home}, key, value);
}

}  // namespace weft::linear
