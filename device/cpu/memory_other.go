//go:build !linux

package cpu

import (
	"errors"
	"math"
	"unsafe"
)

// mapMemory takes memory from the Go heap: a byte slice without pointers costs
// the collector nothing but its accounting.
func mapMemory(size int) (mapping, error) {
	const align = 256
	if size > math.MaxInt/2 {
		return mapping{}, errors.New("larger than the address space")
	}
	b := make([]byte, size+align)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (align - 1)
	return mapping{bytes: b[skip : skip+uintptr(size) : skip+uintptr(size)]}, nil
}

// unmapMemory leaves it to the collector.
func unmapMemory(mapping) error { return nil }
