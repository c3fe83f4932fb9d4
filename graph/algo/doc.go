// Package algo computes on graphs in compressed sparse rows, on all cores of the CPU: triangles, connected
// components, breadth-first search, shortest paths, PageRank, cores, and samples of neighbors.
//
// All functions take a device, which has to be a [device.Host] so far, and slices of the caller for what they
// compute per vertex. What they return is the same on any number of cores, to the bit: where threads meet,
// they take minima or add integers, whose order does not matter. PageRank counts in 64-bit fixed
// point for that reason.
//
// Slices that have not as many elements as the graph has vertices panic. A vertex that does not exist, or
// a graph that an algorithm is not defined for, is device.ErrInvalid. A context that ends is looked at every few milliseconds;
// outputs are what they happen to be then.
package algo
