// Lookups in a table of package cuckoo, beside changes that move keys.
#pragma once

#include "cuckoo_evict.cuh"

namespace weft::cuckoo {

// find looks up a key per lane that is there. All lanes of the warp must call it.
template <class PathTile>
__device__ __forceinline__ bool find(const Table& t, bool there, typename PathTile::S::Key wanted,
                                     typename PathTile::S::Key& value) {
  using S = typename PathTile::S;
  const Path path = path_of<S>(t, wanted);
  const typename S::Key key = stored<S>(wanted);
  return find_beside_moves(t, lock_of(t, lock_bucket(path)), there, value,
                           [&](bool looks, typename S::Key& held) { return find_along<PathTile>(t, looks, path, key, held); });
}

}  // namespace weft::cuckoo
