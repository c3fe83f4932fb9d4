// Package kernels embeds the C++ headers of weft's kernels. Command weftgen therefore finds them
// wherever Go finds this module: in the module cache, in a vendor directory, or through a replace
// directive. It compiles users' kernels with them:
//
//	#include "weft/builtin.cuh"  // threadIdx, blockIdx, __syncthreads: CUDA as nvcc has it
//	#include "weft/warp.cuh"     // threads, warps, atomics with order and scope in their names
//	#include "weft/alloc.cuh"    // weft::Allocator, an alloc.Ref
//
// nvcc compiles the headers, too.
package kernels

import (
	"embed"
	"io/fs"
)

//go:embed include
var files embed.FS

// Headers returns the headers under the names by which kernels include them: "weft/warp.cuh".
func Headers() fs.FS {
	include, err := fs.Sub(files, "include")
	if err != nil {
		panic(err) // not reached, since the name is a valid constant
	}
	return include
}
