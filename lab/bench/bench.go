// Package bench has benchmarks in Go's form, on the device of WEFT_DEVICE: of lookups in user
// kernels, and of algorithms on graphs that lie on the device.
package bench

//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -widths 32_32,64_64 -type linear::Ref=linear.Ref -type slab::Ref=slab.Ref refs_find.cu
