// Package column holds the inputs and results of jobs over rows: columns of integers, floats,
// booleans or byte strings, which may be null. Packages intern, group and join work on columns, and
// package arrow converts Arrow's arrays to them.
//
// A [Column] is a view of the caller's memory, in Arrow's layouts or in Go's. It copies nothing, is
// passed by value and never changes. The caller must not change the memory while the column is in
// use.
//
// [On] is a column in device memory. Its types have a fixed size.
//
// # Partitions
//
// [Partition] distributes rows by a hash of their key columns, so that rows with equal keys are in
// the same partition. A job that exceeds memory can then process one partition after another, or
// several machines can process one partition each. [Hash] documents the hash, which never changes,
// and [Take] gathers the rows of a partition. Package ondevice has the same functions for columns
// on a device, with the same results.
package column
