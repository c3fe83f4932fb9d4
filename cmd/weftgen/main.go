// Command weftgen compiles kernels of CUDA C++ to PTX and makes Go of them. It is
// run by go generate from the directory of the source, and needs clang 19:
//
//	go get -tool github.com/weftgo/weft/cmd/weftgen
//
//	//go:generate go tool weftgen saxpy.cu
//
// From saxpy.cu it makes, all to be committed:
//
//	saxpy_sm80.ptx       what the GPU's driver loads, one file per target
//	saxpy_params_gen.go  the structs that the kernels take
//	saxpy_ptx_gen.go     saxpyImage, which embeds the PTX; saxpyKernels, its
//	                     entry points; loadSaxpy, whose result launches them;
//	                     and a record of inputs and outputs
//
// Who builds the module needs no compiler but Go's.
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
// Headers of weft are those of the version that go.mod requires, in a vendor
// directory, too; package kernels lists them. Headers of the module are found
// beside the source and in directories given by -I. Headers of the system are not
// found, so that everybody generates the same bytes.
//
// What a kernel takes becomes a Go struct, saxpyParams. If it takes one struct by
// value, the Go struct is named after that: getParams of GetParams, or of
// GetParams<K, V> if all instances are alike. Pointers are device.Ptr; structs
// within structs become Go structs, too. With -type Table=tableRef one gets another
// name. With -type Table=.Table it is one that the package has already, and with
// -type Table=internal/lookup.Table, a directory of this module or an import path,
// that of another package: it is compared and not made. weft's own, such as
// weft::Allocator, whose Go type is alloc.Ref, are known.
//
// # Use
//
//	m, err := loadSaxpy(dev)
//	…
//	err = m.Saxpy(stream, device.Dim{X: (n + 255) / 256}, device.Dim{X: 256},
//		&saxpyParams{a: 2, x: x.Ptr(), y: y.Ptr(), n: uint32(n)})
//
// The same runs on device/sim in tests, which finds data races.
//
// # Structs of headers
//
// A struct that several packages refer to is made where it belongs, of the
// header that declares it; table.cuh makes table_params_gen.go with the type Table:
//
//	//go:generate go tool weftgen -export -struct lookup::Table table.cuh
//
// # Images
//
// With -target 80+ptx83,90+ptx83 there is PTX for newer GPUs, too. With -widths
// 32_32,64_0 the source is compiled once for each pair of the bits of a key and
// of a value, as WEFT_KEY_BITS and WEFT_VALUE_BITS tell it, and the names of its
// kernels end with the pair: get_32_32. A program has the driver compile no more
// than it uses. A package may have several sources.
//
// # Freshness
//
// With -check nothing is compiled: the record in every generated file of the
// module is compared with the files named in it, and with weft's headers.
//
// # Exit status
//
//	0  the job is done
//	1  the job failed: the source, the compiler, a file
//	2  the command line makes no sense
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
