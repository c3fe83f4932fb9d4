// Tiles change a table of package linear.
#pragma once

#include "linear_table.cuh"

namespace weft::linear {

// change runs one operation per lane by change_along. All lanes of the warp must call it.
template <class S, int Lanes, int Pieces, class V = void, class Counts = Uncounted>
__device__ __forceinline__ void change(const Table& t, uint32_t flags, Operation<S>& op, const Counts& counts = {}) {
  change_along<PathTile<S, Lanes, Pieces>, V>(t, flags, op, counts);
}

}  // namespace weft::linear
