// Package gpubatch is what the GPU engines of all rooms have in common: how a
// batch in host memory travels through a device, the device memory that
// changes work with, and the launches that give duplicates the outcome of
// batch order.
package gpubatch
