// Package shard distributes keys over the ranks of a [comm.Comm]. It has maps, sets and graphs with
// the methods of packages weft and graph, and jobs over the rows of all ranks.
//
// Each rank makes a local structure for its shard, such as a linear.Map, and passes it to NewMap.
// Keys hash to 16,384 slots, and each rank owns a range of slots. A call partitions a batch by
// rank, exchanges the rows, runs them on the shards, and sends the answers back. With one rank a
// call goes directly to the local structure.
//
// # Collective calls
//
// All ranks must make the same calls on the same structures in the same order, each from one
// goroutine at a time. Each rank passes its own batch, which may be empty. Methods that are not
// collective say so. The batch of a call consists of the rows of rank 0, then those of rank 1, and
// so on. For duplicate keys, package weft documents the outcome in this order. Counts are totals
// over all ranks.
//
// # Errors
//
// At the start of a call, the ranks agree on its method, types and structure, and at the end on its
// outcome. An error on one rank is therefore the same [Error] on all ranks, and no rank blocks
// because another one failed. Ranks that call different methods get [ErrMismatch]. A context is
// checked before the first exchange only. If it has ended on one rank, no rank does anything. Later
// a call cannot be canceled.
//
// If a batch is not completely done, the error is a [weft.PartialError]. Its rows are the rows of
// the caller that were not done, because of missing capacity or because they were not tried. Done
// is the length of the batch, or 0 if nothing was done.
//
// An error of the transport, or a panic, aborts the group.
//
// # Hot keys
//
// Rows with a very frequent key of a batch are combined before the exchange, so that the rank of
// that key does not receive more rows than others. GetOrPut does not combine rows. [Ranks.Stats]
// reports the remaining skew.
//
// # State
//
// Save writes a file with the keys of each rank, and a manifest with the sizes and digests of the
// files. Load reads them on any number of ranks. To restart after a failure, load the last
// manifest, and repeat the batches that followed it.
//
// # Ordered maps and graphs
//
// An [OrderedMap] divides the keys into ranges instead of slots, so that a query for a range of
// keys reaches few ranks. A [Graph] stores the edges of a vertex on the rank of the vertex's slot.
// [PageRank] ranks its vertices.
//
// # Jobs
//
// [Group], [Distinct] and [Join] process rows that each rank passes in batches. Each rank groups
// its own rows first. The groups are then merged on the ranks that own their keys.
package shard
