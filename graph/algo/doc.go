// Package algo implements algorithms on graphs in compressed sparse rows, on all cores of a CPU or
// on a GPU: triangles, connected components, breadth-first search, shortest paths, PageRank, cores,
// and samples of neighbors.
//
// Some results for a graph that changes are maintained from batch to batch, at a cost proportional
// to the batch. [TrianglesOf] counts the triangles that the edges of a batch add or remove.
// [Connected] unites components as edges come. [Ranking] continues from the previous ranks. They
// read the rows that they need from a [Reader], which is a graph on any device, or a snapshot. All
// other functions take the whole graph, as Snapshot.CSR makes it. [DeviceConnected] and
// [DeviceRanking] follow batches in device memory on the device.
//
// All functions take a device, and slices of the caller for their results per vertex. [PageRank],
// [BFS], [Components], [SSSP], [KCore], [Triangles] and [Sample] have kernels: given a GPU they
// copy the graph there and the result back. Their On forms work on a [graph.DeviceCSR] and leave
// the results on its device; on a CPU they do the same as the others. [TrianglesOf] has kernels for
// a graph on the GPU that it is given. All other functions require a [device.Host] so far.
//
// The results are the same on any device and any number of cores, to the bit. Where threads meet,
// they take minima or add integers, so the order does not matter. PageRank counts in 64-bit fixed
// point for that reason.
//
// Functions panic if a slice does not have one element per vertex. A vertex that does not exist, or
// a graph for which an algorithm is not defined, returns device.ErrInvalid. Functions check their
// context every few milliseconds; outputs are undefined after it has ended.
package algo
