//go:build !amd64 && !arm64

package slab

import (
	"runtime"
	"unsafe"
)

// prefetch loads a byte of each half of each slab.
func prefetch(slabs *unsafe.Pointer, n int) {
	var warm byte
	for _, s := range unsafe.Slice(slabs, n) {
		warm ^= *(*byte)(s) ^ *(*byte)(unsafe.Add(s, slabBytes/2))
	}
	runtime.KeepAlive(warm)
}
