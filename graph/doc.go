// Package graph holds graphs. [Graph] and [WeightedGraph] take batches of insertions and deletions of edges, with snapshots, on all
// cores of a CPU or on a GPU. [CSR] and [Weighted] do not change: they are built from a list of edges, by [Build] or of a Graph, and
// lie in memory of the host; [DeviceCSR] and [DeviceWeighted] lie in that of a device, uploaded or exported from a Graph there.
//
// Packages beside it read and write files of graphs (graph/load), and
// compute on them (graph/algo), which works on CSR: of a graph that changes, on that of a [Snapshot] while updates go on.
//
// # When to choose which
//
// A CSR is for graphs that are loaded and computed on: 4 bytes an arc, and nothing is faster to go through. A Graph is for edges
// that come and go: a batch costs what the rows of its vertices cost to be written, and no other. A batch
// should have thousands of edges: each takes four launches or more on a GPU, and one wait of the host.
//
// # Layout of a Graph
//
// A vertex has a record of 32 bytes, with its degree, and up to six neighbors in it (three with weights of 32 bits, two with weights of 64); so in
// roads and meshes most vertices take one sector for degree, edges and neighbors. Longer rows lie in
// one block each, of a class of sizes, four to a doubling, in units of eight entries: neighbors in ascending order, behind them their
// weights. (The record and its blocks are those of faimGraph and Hornet, in part; Awad's thesis "Fully Concurrent GPU Data Structures", 2022, chapter 5, has a
// hash table for each vertex.) Rows are sorted and not hashed: an edge is found by a binary search, in one or two sectors for
// usual degrees; rows are exported as they are and intersected by merging.
//
// # Changes
//
// A batch is sorted by both ends. Then all operations of an edge lie side by side in the order of the batch, and those of a vertex make a segment: the outcome of
// each operation is known from the one before it, the new degrees from a sum, and from these the blocks that are needed. Rows are
// written anew, each to another block, by as many threads as they have entries, and records come last. So nobody waits for
// anybody, a hub is as much parallel work as many small vertices, and the outcome is the same on every device, to the byte. What
// it costs is that a row is copied by each batch that touches it: an edge of a vertex with a million neighbors moves
// 8 MB.
//
// On a GPU, batches of up to eight million entries of rows are not sorted as a whole: entries go to bins of neighboring vertices, and a block of threads orders those
// of a bin, settles and plans; a second launch writes the rows, if it finds that there is memory, and otherwise waits for the host to find it. Where a bin
// has too many, of a hub or since all edges are of few vertices, the batch is sorted, as larger ones are.
//
// Vertices that are deleted take edges of others with them. Few of them, in an undirected graph, are a batch of these edges. To find many, or those that lead to
// vertices of a directed graph, a GPU goes through all rows, and writes those anew that lose neighbors.
//
// The call says of each operation whether it changed the graph, and so which vertices have other rows now: [Edges.Where], [Edges.Ends],
// and on a device [Graph.TouchedOn].
//
// # What edges and vertices have beside
//
// A time stamp is a weight: a WeightedGraph[int64] has the time at which each edge was last seen, since the newest weight
// wins, and edges that are too old are deleted by the list of them. What vertices have lies in slices of the caller,
// indexed by their numbers, which are dense.
//
// With Options.Multi there are parallel edges, each with its weight, in the order in which they came: an insertion adds one whatever is there, a deletion
// removes all between two ends, and the weight of an edge is that of the newest. So the events of a log are edges with the time as weight.
//
// # Concurrency
//
// Changes come one after the other and exclude lookups of the present; those of snapshots run beside them. A [Snapshot] is a copy of the records, and keeps the
// blocks that these lead to: a block is never changed, so one that was written before the last snapshot waits until no snapshot
// has it. Batches on the device are submitted in the order of the calls, whatever their streams; a change there
// waits for its own stream once, since the host finds the memory.
//
// # Layout of a CSR
//
// Vertices are numbered from 0. The neighbors of all vertices lie in one array of 32-bit numbers,
// those of vertex v from Offsets()[v] to Offsets()[v+1], in ascending order. A directed graph has
// the neighbors to which edges lead; an undirected one has each edge in the rows of both its ends,
// but a self loop once. So a graph takes 8 bytes a vertex and 4 bytes an arc, which is an entry
// in a row: 8 bytes an undirected edge. Weights lie in an array of their own, in the same order.
//
// # Building a CSR
//
// The arcs are sorted by both ends, stably, by the radix sort of package internal/cpu; a list that is in order
// is not sorted. What is equal then lies side by side, in the order of the list: of several edges with
// the same ends the last one counts, with its weight ("newest weight wins", as in Awad's thesis
// "Fully Concurrent GPU Data Structures", 2022, section 5.3). The result is the same whatever the number of cores. Meanwhile
// 40 bytes an arc are needed beside the result.
//
// All methods may be called from many goroutines. Slices that methods of CSR and Weighted return are
// those of the graph: nobody may write them.
package graph
