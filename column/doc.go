// Package column holds what the jobs over rows take and return: columns of integers,
// floats, booleans or byte strings, some of whose values may be null. Packages intern,
// group and join work on them, and package arrow makes them of Arrow's arrays.
//
// A [Column] is a view of the caller's memory, in Arrow's layouts or in Go's; it
// copies nothing, is passed by value and never changes. Whoever makes one leaves
// the memory alone as long as it is used.
//
// [On] is a column in the memory of a device, of types of fixed size.
package column
