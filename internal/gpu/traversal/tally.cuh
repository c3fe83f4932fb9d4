// What passes over a graph that is followed leave to the host.
#pragma once

#include "weft/warp.cuh"

namespace weft::traversal {

// Tally is what passes add up, and how long lists are.
struct Tally {
  uint64_t idle;     // ranks of vertices without neighbors, more than there were
  uint64_t waiting;  // what all others have not handed on, more than there was
  uint64_t arcs;     // more than there were
  uint64_t load;     // degrees of vertices that were put into active
  uint64_t front;    // size of the frontier
  uint64_t touched;
  uint64_t changed;
  uint64_t active;
  uint64_t wrong;  // the first vertex whose row is not what edges led to; larger than all before
};

}  // namespace weft::traversal
