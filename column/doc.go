// Package column holds the inputs and results of jobs over rows: columns of integers, floats,
// booleans or byte strings, which may be null. Packages intern, group and join work on them, and
// package arrow converts Arrow's arrays.
//
// A [Column] is a view of the caller's memory, in Arrow's layouts or in Go's. It copies nothing, is
// passed by value and never changes. The caller must not change the memory while the column is in
// use.
//
// [On] is a column in the memory of a device, of types of fixed size.
//
// # Partitions
//
// [Partition] distributes rows by a hash of their key columns, so that rows with equal keys are in
// one partition. This serves work that does not fit memory, partition after partition, and several
// machines. [Hash] documents the hash, which never changes, and [Take] gathers the rows of a
// partition. Package ondevice has the same functions for columns on a device, with the same
// results.
package column
