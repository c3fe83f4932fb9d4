// Package kernelgen compiles kernels of CUDA C++ to PTX with clang and makes Go
// of them: the work of command weftgen, whose page says what comes of it. weft's
// own kernels are made by the same command.
//
// # One source
//
// generate reads a source with all its headers (compile.go), has clang make PTX
// for each target and pair of widths (compile.go, ptx.go, variant.go), reads
// what parameters the kernels take from debug information (package cstruct), and
// writes PTX, structs, images and loaders (emit.go, loader.go). Nothing is
// touched before all is made.
//
// # Headers
//
// In weft's own module the headers are those of its tree. Everywhere else they
// are those of package kernels, which the command carries, put into a temporary
// directory for the compiler (headers.go): so they are of the version of weft
// that go.mod requires, in a vendor directory, too.
//
// # Freshness
//
// Every generated file has a record of what went in and what came out, with
// digests (record.go). It tells without a compiler whether files are up to date.
// The tests of this package verify weft's own.
//
// The model is bpf2go of github.com/cilium/ebpf.
package kernelgen
