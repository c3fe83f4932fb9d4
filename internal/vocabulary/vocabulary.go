// Package vocabulary contains kernels that use every function of kernels/include/weft/warp.cuh, and
// floating-point numbers as users' kernels do. Its tests check on every device that each function
// has its documented effect. Other kernels hash and checksum byte strings, for tests of packages
// that do the same in Go.
package vocabulary

//go:generate go run ../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 vocabulary.cu
//go:generate go run ../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -export digest.cu
