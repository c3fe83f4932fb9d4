// Package hostmem maps memory outside the Go heap. The collector neither scans nor counts it, and
// Unmap returns it to the system at once.
//
// A mapping costs about 2 us and takes whole pages. Mappings of at least [HugePage] bytes begin at
// a multiple of HugePage and request huge pages. On small pages, random reads of a large table miss
// the TLB nearly every time. Memory is zeroed. The system allocates it at its first use.
//
// On systems other than Unix and Windows, memory comes from the Go heap.
package hostmem

import (
	"errors"
	"math"
	"os"
)

// HugePage is the size of a huge page on amd64 and on arm64 with 4 KiB pages.
const HugePage = 2 << 20

// errSize is the error for a size that exceeds every address space.
var errSize = errors.New("larger than the address space")

// Round returns the bytes that a mapping of size bytes takes: whole pages.
func Round(size int) int {
	page := os.Getpagesize()
	return (size + page - 1) &^ (page - 1)
}

// Map maps size bytes of zeroed memory. Size must be positive.
func Map(size int) ([]byte, error) {
	if size > math.MaxInt-2*HugePage {
		return nil, errSize
	}
	return mapMemory(size)
}

// Remap changes the size of a mapping and keeps its contents. The address may change. Added bytes
// are zero unless the mapping was larger before. After an error, b is unchanged.
func Remap(b []byte, size int) ([]byte, error) {
	if size > math.MaxInt-2*HugePage {
		return nil, errSize
	}
	return remap(b, size)
}

// Unmap returns a mapping to the system. The memory must not be used afterwards.
func Unmap(b []byte) error { return unmap(b) }
