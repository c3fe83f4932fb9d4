// Package hostmem maps memory outside of the Go heap: the collector neither scans nor counts it,
// and Unmap returns it to the system at once.
//
// A mapping costs about 2 us and whole pages. Mappings of [HugePage] bytes and more begin at a
// multiple of that and ask for huge pages, because random reads of a large table on small pages
// miss the TLB nearly every time. Memory is zeroed; the system takes it at its first use.
//
// Systems other than Unix and Windows get memory of the Go heap.
package hostmem

import (
	"errors"
	"math"
	"os"
)

// HugePage is the size of a huge page on amd64 and on arm64 with 4 KiB pages.
const HugePage = 2 << 20

// errSize is the error of a size that no address space holds.
var errSize = errors.New("larger than the address space")

// Round returns the bytes that a mapping of size bytes takes: whole pages.
func Round(size int) int {
	page := os.Getpagesize()
	return (size + page - 1) &^ (page - 1)
}

// Map maps size bytes of zeroed memory, which must be positive.
func Map(size int) ([]byte, error) {
	if size > math.MaxInt-2*HugePage {
		return nil, errSize
	}
	return mapMemory(size)
}

// Remap changes the size of a mapping and keeps its contents; it may move. Added bytes are zero
// unless a smaller size came before. On an error b is as it was.
func Remap(b []byte, size int) ([]byte, error) {
	if size > math.MaxInt-2*HugePage {
		return nil, errSize
	}
	return remap(b, size)
}

// Unmap returns a mapping to the system. Reads and writes of it are faults from then on.
func Unmap(b []byte) error { return unmap(b) }
