// Package gpu is what the engines of all structures on a GPU have in common: how
// a batch in host memory travels through a device, the [Workspace] that all
// structures on a device borrow from while a call runs, the launches that give duplicates the outcome of batch order, and an
// [Engine] of which a structure brings only the kernels.
package gpu
