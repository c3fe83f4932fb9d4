// Command weftgen compiles kernels of CUDA C++ to PTX and generates Go for them. Run it by go
// generate in the directory of the source. It needs clang 19:
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
// Headers of weft have the version that go.mod requires, also in a vendor directory; package
// kernels lists them. Headers of the module are found next to the source and in directories given
// by -I. System headers are not found, so that all machines generate the same bytes.
//
// The parameters of a kernel become a Go struct, saxpyParams. If a kernel takes one struct by
// value, the Go struct is named after it: getParams for GetParams, or for GetParams<K, V> if all
// instances have the same layout. Pointers are device.Ptr. Nested structs become Go structs, too.
// -type Table=tableRef sets another name. -type Table=.Table uses an existing type of the package,
// -type Table=internal/lookup.Table one of another package. That package is a directory of this
// module or an import path. Existing types are compared and not generated. weft's own types, such
// as weft::Allocator with the Go type alloc.Ref, are built in.
//
// # Use
//
//	m, err := loadSaxpy(dev)
//	…
//	err = m.Saxpy(stream, device.Dim{X: (n + 255) / 256}, device.Dim{X: 256},
//		&saxpyParams{a: 2, x: x.Ptr(), y: y.Ptr(), n: uint32(n)})
//
// Tests run the same on device/sim, which finds data races.
//
// # Structs of headers
//
// A struct that several packages use is generated in one of them, from the header that declares it.
// table.cuh makes table_params_gen.go with the type Table:
//
//	//go:generate go tool weftgen -export -struct lookup::Table table.cuh
//
// # Images
//
// -target 80+ptx83,90+ptx83 generates PTX for newer GPUs, too. -widths 32_32,64_0 compiles the
// source once for each pair of key and value bits, which it receives as WEFT_KEY_BITS and
// WEFT_VALUE_BITS. The names of its kernels must end with the pair: get_32_32. At run time the
// driver compiles only the images that are used. A package may have several sources.
//
// # Freshness
//
// -check compiles nothing. It compares the record in every generated file of the module with the
// files named in it, and with weft's headers.
//
// # Exit status
//
//	0  the job is done
//	1  the job failed: the source, the compiler, a file
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
