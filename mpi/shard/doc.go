// Package shard holds structures with keys spread over the ranks of a [comm.Comm]: maps and sets
// with the methods of package weft, and jobs over the rows of all ranks.
//
// Each rank makes a structure of its own for its shard, such as a linear.Map, and passes it to
// NewMap. A key belongs to the rank that owns its slot, of 16,384 slots that keys hash to. A call
// partitions a batch by rank, exchanges it, runs it on the shards, and sends the answers back. With
// one rank a call goes to the structure at once.
//
// # Collective calls
//
// All ranks make the same calls on the same structures in the same order, each from one goroutine
// at a time, with batches of their own, which may be empty. Methods that are not collective say so.
// The batch of a call is the rows of rank 0, then those of rank 1, and so on: duplicates have the
// outcome that package weft documents for this order. Counts are those of all ranks.
//
// # Errors
//
// A call begins with an agreement on its method, types and structure, and ends with one on its
// outcome. So an error of one rank is the same [Error] on all, and no rank waits for another in
// vain. Ranks that call different methods get [ErrMismatch]. A context counts before the first
// exchange only, and if it has ended on one rank, no rank does anything. After that calls do not
// stop.
//
// A batch that was not done completely is a [weft.PartialError] with the rows of the caller that
// were not done, whether they found no room or were not tried. So Done is the length of the batch,
// or 0 if nothing was done.
//
// An error of the transport, or a panic, aborts the group.
//
// # Hot keys
//
// Rows of keys that a batch has very often are combined before the exchange, so their rank does not
// get more rows than others. GetOrPut does not combine. [Ranks.Stats] reports what is left of skew.
//
// # State
//
// Save writes a file for the keys of each rank, and a manifest with their sizes and digests. Load
// reads them on any number of ranks. Restart after a failure is a Load of the last manifest.
// Batches after it are the caller's to run again.
//
// # Ordered maps and graphs
//
// An [OrderedMap] has ranges of keys instead of slots, so that a range of keys touches few ranks. A
// [Graph] has the rows of a vertex on the rank of its slot, and [PageRank] works on it.
//
// # Jobs
//
// [Group], [Distinct] and [Join] take rows in batches that each rank brings. Groups are made of the
// rows of each rank first, and then merged by the rank of their keys.
package shard
