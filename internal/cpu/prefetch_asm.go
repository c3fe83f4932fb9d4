//go:build amd64 || arm64

package cpu

import "unsafe"

//go:noescape
func prefetch(base unsafe.Pointer, at *uint32, n int, shift uint)

//go:noescape
func prefetchPairs(at *unsafe.Pointer, n int)
