// Package bench holds Go benchmarks of lookups in users' kernels, and of algorithms on graphs in
// device memory. They run on the device that the environment variable WEFT_DEVICE names.
package bench

//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -widths 32_32,64_64 -type linear::Ref=linear.Ref -type slab::Ref=slab.Ref refs_find.cu
