package cpu

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapMemory maps zeroed memory. Large blocks begin on a huge-page boundary:
// the mapping is made too large by one huge page and trimmed on both sides.
func mapMemory(size int) (mapping, error) {
	page := uintptr(os.Getpagesize())
	length := (uintptr(size) + page - 1) &^ (page - 1)
	var slack uintptr
	if size >= hugePage {
		slack = hugePage
	}
	if length < uintptr(size) || length+slack < length {
		return mapping{}, unix.ENOMEM
	}
	base, err := unix.MmapPtr(-1, 0, nil, length+slack, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return mapping{}, err
	}
	if slack > 0 {
		head := -uintptr(base) & (hugePage - 1)
		tail := slack - head
		if head > 0 {
			if err := unix.MunmapPtr(base, head); err != nil {
				return mapping{}, err
			}
			base = unsafe.Add(base, head)
		}
		if tail > 0 {
			if err := unix.MunmapPtr(unsafe.Add(base, length), tail); err != nil {
				return mapping{}, err
			}
		}
		// Advice: a kernel without transparent huge pages refuses it, and
		// then small pages have to do.
		_ = unix.Madvise(unsafe.Slice((*byte)(base), length), unix.MADV_HUGEPAGE)
	}
	return mapping{bytes: unsafe.Slice((*byte)(base), size), mapped: length}, nil
}

func unmapMemory(m mapping) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(m.bytes)), m.mapped)
}
