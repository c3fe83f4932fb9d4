// Package clib opens C libraries at run time and calls their functions, without cgo.
package clib

import "unsafe"

// Address returns the address of a slice's elements. It forces them onto the heap, where Go does
// not move memory. The caller must keep the slice alive.
func Address[T any](s []T) uintptr { return Pointer(unsafe.SliceData(s)) }

// Pointer returns the address of a value. See Address.
func Pointer[T any](p *T) uintptr {
	if leak.on {
		leak.to = p // forces the value onto the heap, because a global variable may refer to it
	}
	return uintptr(unsafe.Pointer(p))
}

var leak struct {
	on bool
	to any
}

// String returns the C string at an address.
func String(at uintptr) string {
	p := *(*unsafe.Pointer)(unsafe.Pointer(&at)) // C memory, which Go does not move
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}
