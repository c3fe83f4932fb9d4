// Package bench has benchmarks in the form of Go's, on the device of WEFT_DEVICE: of lookups in
// kernels of a user, and of algorithms of graphs that lie on the device.
package bench

//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -widths 32_32,64_64 -type linear::Ref=linear.Ref -type slab::Ref=slab.Ref refs_find.cu
