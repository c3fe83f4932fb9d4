// Package graph holds graphs in compressed sparse rows: [CSR], and [Weighted] with a weight
// beside each neighbor. Both are immutable, built from a list of edges on all cores.
//
// Packages beside it read and write files of graphs (graph/load), generate graphs (graph/gen), and
// compute on them (graph/algo).
//
// # What is here, and what is not
//
// A CSR is made at once and does not change: for graphs that are loaded and computed on. Graphs
// that take batches of insertions and deletions, with snapshots, are planned and not here yet, and
// neither are graphs in the memory of a GPU: functions take a device, which has to be a
// [device.Host] so far; others are device.ErrUnsupported.
//
// # Layout
//
// Vertices are numbered from 0. The neighbors of all vertices lie in one array of 32-bit numbers,
// those of vertex v from Offsets()[v] to Offsets()[v+1], in ascending order. A directed graph has
// the neighbors to which edges lead; an undirected one has each edge in the rows of both its ends,
// but a self loop once. So a graph takes 8 bytes a vertex and 4 bytes an arc, which is an entry
// in a row: 8 bytes an undirected edge. Weights lie in an array of their own, in the same order.
//
// # Building
//
// The arcs are sorted by both ends, stably, by the radix sort of package internal/cpu; a list that is in order
// is not sorted. What is equal then lies side by side, in the order of the list: of several edges with
// the same ends the last one counts, with its weight ("newest weight wins", as in Awad's thesis
// "Fully Concurrent GPU Data Structures", 2022, section 5.3). The result is the same whatever the number of cores. Meanwhile
// 40 bytes an arc are needed beside the result.
//
// # Concurrency
//
// Graphs do not change, so all methods may be called from many goroutines. Slices that methods return are
// those of the graph: nobody may write them.
package graph
