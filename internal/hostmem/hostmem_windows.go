package hostmem

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

func mapMemory(size int) ([]byte, error) {
	address, err := windows.VirtualAlloc(0, uintptr(size),
		windows.MEM_COMMIT|windows.MEM_RESERVE, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	base := *(*unsafe.Pointer)(unsafe.Pointer(&address)) // memory that no collector moves
	return unsafe.Slice((*byte)(base), size), nil
}

func unmap(b []byte) error {
	return windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(b))), 0, windows.MEM_RELEASE)
}
