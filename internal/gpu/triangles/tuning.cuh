// Choices of the kernels that count triangles.
#pragma once

namespace weft::triangles {

// A row of the oriented view that is shorter is searched, a longer one is hashed by a warp, and one longer than kHub by a block.
constexpr unsigned kShort = 16;
constexpr unsigned kHub = 128;
// kSlots is the size of a warp's table, kHubSlots that of a block's, in shared memory: a table is at most a quarter full.
constexpr unsigned kSlots = 4 * kHub;
constexpr unsigned kHubSlots = 1 << 13;
// kMany is the number of wedges of 32 arcs that a warp leaves to a block.
constexpr unsigned kMany = 1 << 15;
// kFull is the number of wedges of 32 arcs from which on rows are gone through one by one by all lanes, rather than be dealt out.
constexpr unsigned kFull = 24 * 32;
// kTask is how many arcs of a hub a block takes at a time.
constexpr unsigned kTask = 256;
// kChunk is how many vertices a warp takes at a time.
constexpr unsigned kChunk = 8;
// kWide is the number of neighbors of the end with fewer from which on a block looks at an edge, and not a warp.
constexpr unsigned kWide = 1 << 13;

}  // namespace weft::triangles
