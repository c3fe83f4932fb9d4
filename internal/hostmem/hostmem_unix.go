//go:build unix && !linux

package hostmem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func mapMemory(size int) ([]byte, error) {
	const access, private = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(Round(size)), access, private)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(base), size), nil
}

func unmap(b []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(Round(len(b))))
}
