// The results that passes over a dynamic graph return to the host.
#pragma once

#include "weft/warp.cuh"

namespace weft::traversal {

// Tally holds sums over the vertices of a pass, and the lengths of lists.
struct Tally {
  uint64_t idle;     // change in the total rank of vertices without neighbors
  uint64_t waiting;  // change in the total residual of all other vertices
  uint64_t arcs;     // change in the number of arcs
  uint64_t load;     // total degree of the vertices added to active
  uint64_t front;    // size of the frontier
  uint64_t touched;
  uint64_t changed;
  uint64_t active;
  uint64_t wrong;  // first vertex with a row that contradicts the recorded edges; initially 2^64-1
};

}  // namespace weft::traversal
