//go:build !unix && !windows

package hostmem

import "unsafe"

// mapMemory takes memory from the Go heap. The collector does not scan a byte slice, it only counts
// it.
func mapMemory(size int) ([]byte, error) {
	const align = 256
	b := make([]byte, size+align)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (align - 1)
	return b[skip : skip+uintptr(size) : skip+uintptr(size)], nil
}

func unmap([]byte) error { return nil }
