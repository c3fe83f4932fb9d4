// Package graph implements graphs in two forms. [Graph] and [WeightedGraph] change: they take
// batches of insertions and deletions of edges, with snapshots, on all cores of a CPU or on a GPU.
// [CSR] and [Weighted] are immutable and lie in host memory. They are built from a list of edges,
// by [Build], or from a Graph. [DeviceCSR] and [DeviceWeighted] lie in device memory, uploaded or
// exported from a Graph on that device.
//
// Package graph/load reads and writes files of graphs. Package graph/algo implements algorithms on
// a CSR. For a graph that changes, they run on the CSR of a [Snapshot] while updates continue.
//
// # When to choose which
//
// Choose a CSR for graphs that are loaded and analyzed. It takes 4 bytes an arc, and nothing is
// faster to traverse. Choose a Graph for edges that come and go. The cost of a batch is that of
// rewriting the rows of its vertices. A batch should have thousands of edges, since each takes four
// launches or more on a GPU, and one wait of the host.
//
// # Layout of a Graph
//
// A vertex has a record of 32 bytes with its degree and up to six neighbors (three with 32-bit
// weights, two with 64-bit weights). So in road networks and meshes most vertices take one sector
// for degree, edges and neighbors. A longer row lies in a block of its own, with the neighbors in
// ascending order, followed by their weights. Blocks come in size classes, four to a doubling, in
// units of eight entries. The record and its blocks are in part those of faimGraph and Hornet.
// Awad's thesis "Fully Concurrent GPU Data Structures" (2022), chapter 5, has a hash table for each
// vertex. Rows here are sorted and not hashed. A binary search finds an edge, in one or two sectors
// for usual degrees. Rows are exported as they are, and merging intersects them.
//
// # Changes
//
// A batch is sorted by both ends. The operations of an edge are then adjacent, in batch order, and
// those of a vertex form a segment. The outcome of each operation follows from the one before it.
// The new degrees follow from a sum, and the required blocks from the degrees. Each row is written
// anew, to another block, by as many threads as it has entries; records come last. So no thread
// waits for another, and a hub is as much parallel work as many small vertices. The outcome is the
// same on every device, to the byte. The price is that each batch copies the rows it touches: an
// edge of a vertex with a million neighbors moves 8 MB. Compare-and-swap in place, as in the
// thesis, saves that copy, but leaves duplicates, exact degrees and growth to retries.
//
// On a GPU, batches of up to eight million entries of rows are not sorted as a whole. Entries go to
// bins of neighboring vertices. A block of threads sorts a bin, resolves its operations and plans
// its rows. A second launch writes the rows if memory suffices; otherwise it waits for the host to
// allocate memory. If a bin overflows, because of a hub or because all edges belong to few
// vertices, the batch is sorted as a whole, as larger ones are.
//
// Deleting vertices deletes their edges, which are in the rows of other vertices, too. For few
// vertices of an undirected graph this is a batch of these edges. For many vertices, or in a
// directed graph, a GPU scans all rows, and rewrites those that lose neighbors.
//
// A call reports for each operation whether it changed the graph, and so which vertices have new
// rows: [Edges.Filter], [Edges.Endpoints], and on a device [Graph.EndpointsOn].
//
// # Attributes of edges and vertices
//
// A time stamp is a weight. A WeightedGraph[int64] stores the time at which each edge was last
// seen, since the newest weight wins. To expire old edges, delete a list of them. Attributes of
// vertices lie in slices of the caller, indexed by vertex numbers, which are dense.
//
// Options.Multi allows parallel edges, each with its weight, in the order of insertion. An
// insertion always adds an edge, a deletion removes all edges between two ends, and the weight of
// an edge is that of the newest. So the events of a log are edges with the time as weight.
//
// # Concurrency
//
// Changes run one after the other and exclude lookups of the present graph. Lookups of snapshots
// run alongside changes. A [Snapshot] is a copy of the records, and keeps the blocks that they
// refer to. A block is never modified. A retired block that was written before the last snapshot
// stays allocated until no snapshot refers to it. Batches on the device are submitted in the order
// of the calls, whatever their streams. A change there waits for its own stream once, since the
// host allocates the memory.
//
// # Layout of a CSR
//
// Vertices are numbered from 0. The neighbors of all vertices lie in one array of 32-bit numbers.
// Those of vertex v lie from Offsets()[v] to Offsets()[v+1], in ascending order. A directed graph
// stores the targets of edges. An undirected one stores each edge in the rows of both its ends, but
// a self loop once. So a graph takes 8 bytes a vertex and 4 bytes an arc, which is an entry in a
// row: 8 bytes an undirected edge. Weights lie in an array of their own, in the same order.
//
// # Building a CSR
//
// The arcs are sorted by both ends, stably, by the radix sort of package internal/cpu, unless the
// list is already sorted. Equal arcs are then adjacent, in the order of the list. Of several edges
// with the same ends the last one counts, with its weight ("newest weight wins", as in Awad's
// thesis "Fully Concurrent GPU Data Structures", 2022, section 5.3). The result does not depend on
// the number of cores. Building takes 40 bytes an arc of temporary memory.
//
// All methods are safe for concurrent use. Slices that methods of CSR and Weighted return belong to
// the graph and must not be modified.
package graph
