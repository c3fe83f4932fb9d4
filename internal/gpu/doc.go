// Package gpu is what the engines of all structures on a GPU have in common: how
// a batch in host memory travels through a device, the device memory that changes
// work with, the launches that give duplicates the outcome of batch order, and an
// [Engine] of which a structure brings only the kernels.
package gpu
