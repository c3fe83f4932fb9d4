// Command weftgen compiles kernels of CUDA C++ to PTX and generates Go code for them. go generate
// runs it in the directory of the source. It needs clang 19:
//
//	go get -tool github.com/weftgo/weft/cmd/weftgen
//
//	//go:generate go tool weftgen saxpy.cu
//
// From saxpy.cu it makes these files, all to be committed:
//
//	saxpy_sm80.ptx       what the GPU's driver loads, one file per target
//	saxpy_params_gen.go  the structs that the kernels take
//	saxpy_ptx_gen.go     saxpyImage, which embeds the PTX; saxpyKernels, its
//	                     entry points; loadSaxpy, which returns their launcher;
//	                     and a record of inputs and outputs
//
// Building the module requires no compiler other than Go's.
//
// # Kernels
//
// A kernel is declared extern "C" __global__:
//
//	#include "weft/builtin.cuh"
//
//	extern "C" __global__ void saxpy(float a, const float* x, float* y, uint32_t n) {
//		uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
//		if (i < n) y[i] += a * x[i];
//	}
//
// Headers of weft have the version that go.mod requires, even in a vendor directory. Package
// kernels lists them. Headers of the module are found next to the source and in directories given
// by -I. System headers are not found, so that the output is the same on all machines.
//
// The parameters of a kernel become a Go struct, saxpyParams. If a kernel takes one struct by
// value, the Go struct is named after it: getParams for GetParams. All instances of a template,
// GetParams<K, V>, must have the same layout. Pointers become device.Ptr, and nested structs become
// Go structs.
//
// -type Table=tableRef sets another name for a struct. -type Table=.Table uses an existing type of
// the package, and -type Table=internal/lookup.Table one of another package. That package is given
// by a directory of this module or by an import path. An existing type is not generated; its layout
// is compared. Types of weft's own headers need no -type, for example weft::Allocator, which is
// alloc.Ref in Go.
//
// # Use
//
//	m, err := loadSaxpy(dev)
//	…
//	err = m.Saxpy(stream, device.Dim{X: (n + 255) / 256}, device.Dim{X: 256},
//		&saxpyParams{a: 2, x: x.Ptr(), y: y.Ptr(), n: uint32(n)})
//
// The same code runs in tests on device/sim, which finds data races.
//
// # Structs of headers
//
// A struct that several packages use is generated in one of them, from the header that declares it.
// From table.cuh this line makes table_params_gen.go, with the type Table:
//
//	//go:generate go tool weftgen -export -struct lookup::Table table.cuh
//
// # Images
//
// -target 80+ptx83,90+ptx83 also generates PTX for newer GPUs. -widths 32_32,64_0 compiles the
// source once for each pair of key and value bits. The source receives the pair as WEFT_KEY_BITS
// and WEFT_VALUE_BITS. The names of its kernels must end with the pair: get_32_32. At run time the
// driver compiles only the images that are used. A package may have several sources.
//
// # Freshness
//
// -check compares the record in every generated file of the module with the files that the record
// names, and with weft's headers. It compiles nothing.
//
// # Exit status
//
//	0  success
//	1  failure: the source, the compiler, a file
//	2  the command line is invalid
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/weftgo/weft/internal/kernelgen"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := kernelgen.Command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}
