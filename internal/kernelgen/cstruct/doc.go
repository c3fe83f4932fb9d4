// Package cstruct generates Go structs for the structs that CUDA kernels take.
//
// The layout of a struct is read from clang's debug information, in PTX compiled with -g -O0 for
// this purpose ([Read]). It has every field, with its offset and its type after resolving typedefs.
// Unlike clang's dumps for people, it is a standard. [Package] then writes the Go side, with
// structs.HostLayout, padding wherever the C++ side has some, and assertions on size and offsets
// that the Go compiler checks.
//
//	struct GetParams { Table table; const K* keys; uint32_t max_probe; };
//
// becomes
//
//	type getParams struct {
//		_        structs.HostLayout
//		table    table
//		keys     device.Ptr
//		maxProbe uint32
//		_        [4]byte
//	}
//
// A field is a number of up to 64 bits, a bool, an enum, a pointer, a struct, or an array of those.
// Bases, bit-fields and unions are refused.
package cstruct
