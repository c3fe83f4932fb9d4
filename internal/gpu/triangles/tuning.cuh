// Tuning constants of the kernels that count triangles.
#pragma once

namespace weft::triangles {

// Shorter rows of the oriented view are searched, longer ones are hashed by a warp, and those
// longer than kHub by a block.
constexpr unsigned kShort = 16;
constexpr unsigned kHub = 128;
// kSlots is the size of a warp's table in shared memory, kHubSlots that of a block's. A table is at
// most a quarter full.
constexpr unsigned kSlots = 4 * kHub;
constexpr unsigned kHubSlots = 1 << 13;
// kMany is the number of wedges of 32 arcs above which a warp leaves them to a block.
constexpr unsigned kMany = 1 << 15;
// kFull is the minimum number of wedges of 32 arcs for which all lanes read the rows one by one,
// rather than distribute the wedges.
constexpr unsigned kFull = 24 * 32;
// kTask is the number of arcs of a hub that a block takes at a time.
constexpr unsigned kTask = 256;
// kChunk is the number of vertices that a warp takes at a time.
constexpr unsigned kChunk = 8;
// kWide is the number of neighbors of the end with fewer, above which a block processes an edge,
// and not a warp.
constexpr unsigned kWide = 1 << 13;

}  // namespace weft::triangles
