// The results that passes over a followed graph leave to the host.
#pragma once

#include "weft/warp.cuh"

namespace weft::traversal {

// Tally holds sums of passes, and the lengths of lists.
struct Tally {
  uint64_t idle;     // change in the ranks of vertices without neighbors
  uint64_t waiting;  // change in what all others have not handed on
  uint64_t arcs;     // change in the number of arcs
  uint64_t load;     // degrees of vertices added to active
  uint64_t front;    // size of the frontier
  uint64_t touched;
  uint64_t changed;
  uint64_t active;
  uint64_t wrong;  // first vertex with a row that contradicts the edges; initially the maximum
};

}  // namespace weft::traversal
