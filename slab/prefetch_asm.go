//go:build amd64 || arm64

package slab

import "unsafe"

//go:noescape
func prefetch(slabs *unsafe.Pointer, n int)
