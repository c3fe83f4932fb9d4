package pm

import (
	"testing"
	"unsafe"
)

// lines returns the cache lines that hold the given words, and no others.
func TestLines(t *testing.T) {
	memory := make([]uint64, 100)
	for uintptr(unsafe.Pointer(&memory[0]))%128 != 0 {
		memory = memory[1:]
	}
	for _, line := range []uintptr{32, 64, 128} {
		for lo := range 40 {
			for hi := lo + 1; hi <= 40; hi++ {
				first, n := lines(memory[lo:hi], line)
				from := uintptr(lo*Word) / line
				if at := uintptr(first) - uintptr(unsafe.Pointer(&memory[0])); at != from*line || n != uintptr(hi*Word-1)/line+1-from {
					t.Fatalf("words [%d,%d): %d lines of %d bytes from byte %d on", lo, hi, n, line, at)
				}
			}
		}
	}
}
