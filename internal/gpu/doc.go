// Package gpu holds the code that the GPU engines of all structures share. It transfers batches
// between host memory and a device, and launches the kernels that resolve duplicates in batch
// order. Structures on the same device share a [Workspace] during calls. A structure embeds an
// [Engine] and adds only its kernels.
package gpu
