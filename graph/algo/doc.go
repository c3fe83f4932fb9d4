// Package algo implements algorithms on graphs in compressed sparse rows, on all cores of a CPU or
// on a GPU: triangles, connected components, breadth-first search, shortest paths, PageRank, cores,
// and samples of neighbors.
//
// Three results of a mutable graph can be maintained from batch to batch, at a cost proportional to
// the batch. [TrianglesOf] counts the triangles that the edges of a batch add or remove.
// [Connected] unites components when edges are inserted. [Ranking] continues from the previous
// ranks. TrianglesOf and Ranking read the rows that they need from a [Reader], which is a graph on
// any device, or a snapshot. [DeviceConnected] and [DeviceRanking] process batches in device
// memory. All other functions take a whole graph, as Snapshot.CSR returns it.
//
// Functions take a device, and slices of the caller for their results per vertex. [PageRank],
// [BFS], [Components], [SSSP], [KCore], [Triangles] and [Sample] have kernels: given a GPU they
// copy the graph to the GPU and the result back. The functions with the suffix On take a
// [graph.DeviceCSR] and leave the results on its device. [TrianglesOf] also has kernels, if the
// graph is on the given GPU. All other functions require a [device.Host] so far.
//
// The results are the same on any device and any number of cores, to the bit. Concurrent threads
// combine their results by minima or integer sums, so the order does not matter. For that reason
// PageRank computes in 64-bit fixed point.
//
// Functions panic if a slice does not have one element per vertex. They return device.ErrInvalid
// for a vertex that does not exist, and for a graph on which an algorithm is not defined. Functions
// check their context every few milliseconds. If it ends, the results are undefined.
package algo
