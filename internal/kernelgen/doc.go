// Package kernelgen compiles kernels of CUDA C++ to PTX with clang and generates Go for them. It
// implements command weftgen, which documents the outputs. weft's own kernels are built by the same
// command.
//
// # One source
//
// generate reads a source with all its headers (compile.go). clang emits PTX for each target and
// pair of widths (compile.go, ptx.go, variant.go). Debug information gives the parameters of
// kernels (package cstruct). generate then writes PTX, structs, images and loaders (emit.go,
// loader.go). No file changes before all outputs are made.
//
// # Headers
//
// In weft's own module the headers are those of its tree. Elsewhere they are those of package
// kernels, which the command embeds, in a temporary directory for the compiler (headers.go). They
// thus have the version of weft that go.mod requires, also in a vendor directory.
//
// # Freshness
//
// Every generated file has a record of the inputs and outputs, with digests (record.go). It shows
// without a compiler whether files are up to date. The tests of this package verify weft's own.
//
// The model is bpf2go of github.com/cilium/ebpf.
package kernelgen
