// Package column holds what the jobs over rows take and return: columns of integers,
// floats, booleans or byte strings, some of whose values may be null. Packages intern,
// group and join work on them, and package arrow makes them of Arrow's arrays.
//
// A [Column] is a view of the caller's memory, in Arrow's layouts or in Go's; it
// copies nothing, is passed by value and never changes. Whoever makes one leaves
// the memory alone as long as it is used.
//
// [On] is a column in the memory of a device, of types of fixed size.
//
// # Partitions
//
// [Partition] deals rows out by a hash of their key columns, so that rows with equal keys are in
// one partition: for work that does not fit memory, partition after partition, or for several
// machines. [Hash] documents the hash, which never changes, and [Take] gathers the rows of a
// partition. Package ondevice has the same for columns on a device, with the same results.
package column
