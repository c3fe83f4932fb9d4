// Package gpu holds the common parts of the engines of all structures on a GPU: the transfer of
// batches in host memory through a device, the [Workspace] that all structures on a device share
// during calls, and the launches that resolve duplicates in batch order. To its [Engine] a
// structure adds only the kernels.
package gpu
