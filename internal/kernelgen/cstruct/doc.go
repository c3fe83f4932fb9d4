// Package cstruct generates Go structs for the structs that CUDA kernels take.
//
// [Read] reads the layout of structs from clang's debug information, in PTX that is compiled with
// -g -O0 for this purpose. The debug information has the offset of every field and the field's type
// after typedefs are resolved. Unlike the layouts that clang prints for people, its format is a
// standard. [Package] then writes Go structs with structs.HostLayout and with the padding of C++.
// It also writes assertions on sizes and offsets, which the Go compiler checks.
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
// A field may be a number of up to 64 bits, a bool, an enum, a pointer, a struct, or an array of
// these. Structs with bases, bit-fields or unions cause an error.
package cstruct
