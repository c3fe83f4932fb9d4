// Package cstruct makes Go structs of those that CUDA kernels take.
//
// What a struct looks like is read from the debug information of clang, in PTX
// that is compiled with -g -O0 for this purpose ([Read]): it names every field,
// with its offset and its type behind all typedefs, and is a standard, unlike
// what clang prints for people. [Package] then writes the Go side, with
// structs.HostLayout, padding wherever the C++ side has some, and assertions on
// size and offsets that the Go compiler checks.
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
// A field is a number of up to 64 bits, a bool, an enum, a pointer, a struct, or
// an array of those. Bases, bit-fields and unions are refused.
package cstruct
