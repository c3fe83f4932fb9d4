// Tuning constants of the kernels that count triangles.
#pragma once

namespace weft::triangles {

// Rows of the oriented view with fewer than kMinHashedRow arcs are searched. A warp hashes longer
// rows, and a block hashes rows with more than kMaxWarpRow arcs.
constexpr unsigned kMinHashedRow = 16;
constexpr unsigned kMaxWarpRow = 128;
// kSlots is the number of slots in a warp's table in shared memory, and kHubSlots that in a block's
// table. A table has a load of at most a quarter.
constexpr unsigned kSlots = 4 * kMaxWarpRow;
constexpr unsigned kHubSlots = 1 << 13;
// kMaxWarpWedges is the maximum number of wedges of 32 arcs that a warp counts. Above it, the warp
// leaves the arcs to a block.
constexpr unsigned kMaxWarpWedges = 1 << 15;
// kFull is the minimum number of wedges of 32 arcs for which all lanes read one row after the
// other. Below it, the wedges are distributed to the lanes.
constexpr unsigned kFull = 24 * 32;
// kTask is the number of arcs of a hub that a block takes at a time.
constexpr unsigned kTask = 256;
// kChunk is the number of vertices that a warp takes at a time.
constexpr unsigned kChunk = 8;
// kMaxWarpNeighbors is the maximum number of neighbors for which a warp processes an edge. It
// applies to the end with fewer neighbors. Above it, a block processes the edge.
constexpr unsigned kMaxWarpNeighbors = 1 << 13;

}  // namespace weft::triangles
