// Package kernels contains the C++ headers of weft's kernels, embedded so that they are found
// wherever Go finds this module: in the module cache, in a vendor directory, or through a replace
// directive. Command weftgen compiles users' kernels with them:
//
//	#include "weft/builtin.cuh"  // threadIdx, blockIdx, __syncthreads: CUDA as nvcc has it
//	#include "weft/warp.cuh"     // threads, warps, atomics with order and scope in their names
//	#include "weft/alloc.cuh"    // weft::Allocator, an alloc.Ref
//
// They compile with nvcc, too.
package kernels

import (
	"embed"
	"io/fs"
)

//go:embed include
var files embed.FS

// Headers returns the headers, by the names by which kernels include them: "weft/warp.cuh".
func Headers() fs.FS {
	include, err := fs.Sub(files, "include")
	if err != nil {
		panic(err) // of a constant name
	}
	return include
}
