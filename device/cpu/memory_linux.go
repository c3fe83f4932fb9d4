package cpu

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapMemory maps zeroed memory.
func mapMemory(size int) (mapping, error) {
	page := uintptr(os.Getpagesize())
	length := (uintptr(size) + page - 1) &^ (page - 1)
	if length < uintptr(size) {
		return mapping{}, unix.ENOMEM
	}
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
	var base unsafe.Pointer
	var err error
	if size < hugePage {
		base, err = unix.MmapPtr(-1, 0, nil, length, prot, flags)
	} else {
		base, err = mapHuge(length, prot, flags)
	}
	if err != nil {
		return mapping{}, err
	}
	return mapping{bytes: unsafe.Slice((*byte)(base), size), mapped: length}, nil
}

// mapHuge maps memory that begins on a huge-page boundary: the mapping is made
// too large by one huge page and trimmed on both sides.
func mapHuge(length uintptr, prot, flags int) (unsafe.Pointer, error) {
	if length+hugePage < length {
		return nil, unix.ENOMEM
	}
	base, err := unix.MmapPtr(-1, 0, nil, length+hugePage, prot, flags)
	if err != nil {
		return nil, err
	}
	head := -uintptr(base) & (hugePage - 1)
	tail := hugePage - head
	if head > 0 {
		if err := unix.MunmapPtr(base, head); err != nil {
			return nil, err
		}
		base = unsafe.Add(base, head)
	}
	if err := unix.MunmapPtr(unsafe.Add(base, length), tail); err != nil {
		return nil, err
	}
	// Advice: a kernel without transparent huge pages refuses it, and then
	// small pages have to do.
	_ = unix.Madvise(unsafe.Slice((*byte)(base), length), unix.MADV_HUGEPAGE)
	return base, nil
}

// reserveMemory takes addresses that nobody may use yet, on a huge-page
// boundary. They count as no memory, whatever the system does about
// overcommitment.
func reserveMemory(size int) ([]byte, error) {
	base, err := mapHuge(uintptr(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(base), size), nil
}

func unmapMemory(m mapping) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(m.bytes)), m.mapped)
}
