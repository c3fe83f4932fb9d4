// Package kernelgen compiles kernels of CUDA C++ to PTX with clang and generates Go code for them.
// It implements command weftgen; see there for the outputs. The same command builds weft's own
// kernels.
//
// # One source
//
// generate reads a source with all its headers (compile.go). clang emits PTX for each target and
// pair of widths (compile.go, ptx.go, variant.go). The parameters of kernels come from debug
// information (package cstruct). generate then writes PTX, structs, images and loaders (emit.go,
// loader.go). No file changes before all outputs are made.
//
// # Headers
//
// Weft's own module uses the headers in its tree. Other modules use the headers of package kernels,
// which the command embeds and copies to a temporary directory (headers.go). Their version is
// therefore the version of weft that go.mod requires, even in a vendor directory.
//
// # Freshness
//
// Every source has a record of its inputs and outputs with their digests, in a generated file
// (record.go). The record shows without a compiler whether files are up to date. The tests of this
// package verify the records of weft's own files.
//
// The model is bpf2go of github.com/cilium/ebpf.
package kernelgen
