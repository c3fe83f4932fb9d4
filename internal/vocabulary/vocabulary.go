// Package vocabulary has kernels that use every word of
// kernels/include/weft/warp.cuh, and floating-point numbers as the kernels of
// users do, so that its tests can show on every device that each does what it
// says; and kernels that hash and sum up byte strings, for tests of packages whose
// Go does the same.
package vocabulary

//go:generate go run ../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 vocabulary.cu
//go:generate go run ../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -export digest.cu
