// Kernels that update components and ranks after each batch of changes to a graph. The Go files of
// the package describe the launches.
#include "following.cuh"

using namespace weft;

#define WEFT_FOLLOWING(name, Params) \
  extern "C" __global__ void __launch_bounds__(256) following_##name(traversal::Params p) { traversal::name(p); }

WEFT_FOLLOWING(edges_check, CheckParams)

WEFT_FOLLOWING(forest_grow, ForestParams)
WEFT_FOLLOWING(forest_unite, ForestParams)

WEFT_FOLLOWING(follow_begin, FollowParams)
WEFT_FOLLOWING(follow_agrees, FollowParams)
WEFT_FOLLOWING(follow_share, FollowParams)
WEFT_FOLLOWING(follow_sweep, FollowParams)
WEFT_FOLLOWING(follow_list, FollowParams)
WEFT_FOLLOWING(follow_touch, FollowParams)
WEFT_FOLLOWING(follow_edges, FollowParams)
WEFT_FOLLOWING(follow_settle, FollowParams)
WEFT_FOLLOWING(follow_hand, FollowParams)
WEFT_FOLLOWING(follow_spread, FollowParams)
WEFT_FOLLOWING(follow_refresh, FollowParams)
