//go:build amd64 || arm64

package cpu

import "unsafe"

//go:noescape
func prefetch(at *unsafe.Pointer, n int)

//go:noescape
func prefetchPairs(at *unsafe.Pointer, n int)
