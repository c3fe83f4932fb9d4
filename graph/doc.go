// Package graph implements mutable graphs and immutable graphs.
//
// [Graph] and [WeightedGraph] are mutable. They insert and delete batches of edges and take
// snapshots. They run on all cores of a CPU or on a GPU.
//
// [CSR] and [Weighted] are immutable and lie in host memory. [Build] makes a CSR from a list of
// edges, and [Graph.CSR] makes one from a Graph. [DeviceCSR] and [DeviceWeighted] lie in device
// memory. They are uploaded, or exported from a Graph on the same device.
//
// Package graph/load reads and writes graph files. Package graph/algo implements algorithms on a
// CSR. To analyze a Graph, run them on the CSR of a [Snapshot], while updates continue.
//
// # When to choose which
//
// Choose a CSR for a graph that is loaded and analyzed. It takes 4 bytes an arc, and nothing is
// faster to traverse. Choose a Graph for edges that come and go. A batch rewrites the row of each
// vertex that it changes. Let a batch have thousands of edges: on a GPU each batch takes at least
// four launches, and the host waits once.
//
// # Layout of a Graph
//
// A vertex has a record of 32 bytes with its degree and up to six neighbors (three with 32-bit
// weights, two with 64-bit weights). So in road networks and meshes most vertices take one sector
// for degree, edges and neighbors. A longer row lies in a separate block: the neighbors in
// ascending order, followed by their weights. The capacity of a block is a multiple of eight
// entries. Each doubling of the capacity has four size classes. Records and blocks follow faimGraph
// and Hornet in part. Awad's thesis "Fully Concurrent GPU Data Structures" (2022), chapter 5, uses
// a hash table per vertex. Here rows are sorted instead. A binary search finds an edge, in one or
// two sectors for usual degrees. Rows are exported without sorting, and intersected by merging.
//
// # Changes
//
// A batch is sorted by both ends of its edges. Then the operations on one edge are adjacent, in
// batch order, and the operations on one vertex form a segment. The result of each operation
// follows from the operation before it. Sums over segments yield the new degrees, and the degrees
// determine the blocks to allocate. Each row is written to a new block, by one thread per entry;
// records are written last. So no thread waits for another, and a hub is as parallel as many small
// vertices. The result is the same on every device, to the byte. The price is that each batch
// copies the rows that it changes: an edge of a vertex with a million neighbors moves 8 MB.
// Compare-and-swap in place, as in the thesis, saves that copy. But then duplicates, exact degrees
// and growing rows require retries.
//
// On a GPU, a batch that inserts or deletes up to eight million row entries is not sorted as a
// whole. The entries go to bins of neighboring vertices. A block of threads sorts a bin, resolves
// its operations and plans its rows. A second launch writes the rows if memory suffices; otherwise
// it waits until the host has allocated memory. A bin overflows if the batch has a hub, or if all
// its edges belong to few vertices. Then the whole batch is sorted, as larger batches are.
//
// Deleting vertices also deletes their edges from the rows of other vertices. In an undirected
// graph, few vertices are deleted by a batch of their edges. For many vertices, and always in a
// directed graph, a GPU scans all rows and rewrites the rows that lose neighbors.
//
// A call reports for each operation whether it changed the graph. [Edges.Filter] and
// [Edges.Endpoints] derive the vertices with new rows; on a device [Graph.EndpointsOn] does.
//
// # Attributes of edges and vertices
//
// A time stamp is a weight. A WeightedGraph[int64] stores the time at which each edge was last
// inserted, since an insertion replaces the weight. To expire old edges, delete a list of them.
// Store attributes of vertices in slices indexed by vertex number, since vertex numbers are dense.
//
// Options.Multi allows parallel edges, each with its weight, in the order of insertion. An
// insertion always adds an edge. A deletion removes all edges between two ends. A lookup returns
// the weight of the newest edge. So an event log can be stored as edges with the time as weight.
//
// # Concurrency
//
// Changes run one after the other and exclude lookups of the current graph. Lookups on a [Snapshot]
// run alongside changes. A Snapshot copies the records and keeps the blocks that they refer to. A
// block is never modified. When a row gets a new block, its old block stays allocated until no
// snapshot refers to it. Batches on the device are submitted in the order of the calls, even on
// different streams. A change on a device waits once for its stream, since the host allocates
// memory.
//
// # Saving a Graph
//
// [Graph.Save] writes a graph to a stream, and [Graph.Load] inserts it into another one. Package
// durable makes each change survive power failures instead. Its log has the operations of each
// batch, about 8 bytes an edge. Its checkpoints are snapshots, so changes continue meanwhile.
// InsertCSR and Load of a durable graph make several changes: the vertices, and then the edges.
//
// # Layout of a CSR
//
// Vertices are numbered from 0. The neighbors of all vertices lie in one array of 32-bit numbers.
// The neighbors of vertex v begin at Offsets()[v], end before Offsets()[v+1], and ascend. A
// directed graph stores the targets of edges. An undirected graph stores each edge in the rows of
// both its ends, but a self loop once. An entry in a row is an arc. So a graph takes 8 bytes a
// vertex and 4 bytes an arc, which is 8 bytes an undirected edge. Weights lie in a separate array,
// in the same order.
//
// # Building a CSR
//
// A stable radix sort (package internal/cpu) sorts the arcs by both ends, unless the list is
// already sorted. Equal arcs are then adjacent, in list order. If several edges have the same ends,
// Build keeps the last one and its weight ("newest weight wins" in Awad's thesis, section 5.3). The
// result does not depend on the number of cores. Building takes 40 bytes an arc of temporary
// memory.
//
// All methods are safe for concurrent use. Slices that methods of CSR and Weighted return belong to
// the graph and must not be modified.
package graph
