// Package algo computes on graphs in compressed sparse rows, on all cores of a CPU or on a GPU: triangles, connected
// components, breadth-first search, shortest paths, PageRank, cores, and samples of neighbors.
//
// Of a graph that changes some of it is kept from batch to batch, at a cost that goes with the batch: [TrianglesOf] counts those that the edges of one bring or take,
// [Connected] unites components as edges come, and [Ranking] goes on from the ranks that there were. They read the rows that they need from a [Reader], which is
// a graph on any device, or a snapshot; everything else takes the whole graph, as Snapshot.CSR makes it. [DeviceConnected] and [DeviceRanking] follow batches that lie on a
// device there.
//
// All functions take a device, and slices of the caller for what they compute per vertex. [PageRank], [BFS], [Components], [SSSP], [KCore],
// [Triangles] and [Sample] have kernels: given a GPU they copy the graph there and the result back. Their On forms work on a [graph.DeviceCSR], which lies there already,
// and leave results there; on a CPU they do the same as the others. [TrianglesOf] has kernels for a graph on the GPU that it is given. Everything else has to
// be given a [device.Host] so far.
//
// What they return is the same on any device and any number of cores, to the bit: where threads meet, they take minima or add
// integers, whose order does not matter. PageRank counts in 64-bit fixed point for that reason.
//
// Slices that have not as many elements as the graph has vertices panic. A vertex that does not exist, or
// a graph that an algorithm is not defined for, is device.ErrInvalid. A context that ends is looked at every few milliseconds;
// outputs are what they happen to be then.
package algo
