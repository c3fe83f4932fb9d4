package hostmem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Copies reports whether Remap copies, so that both mappings exist for a moment.
const Copies = false

const access, private = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON

func mapMemory(size int) ([]byte, error) {
	var base unsafe.Pointer
	var err error
	if size < HugePage {
		base, err = unix.MmapPtr(-1, 0, nil, uintptr(Round(size)), access, private)
	} else {
		base, err = mapHuge(uintptr(Round(size)), access, private)
	}
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(base), size), nil
}

// mapHuge maps memory that begins at a multiple of HugePage. It maps one huge page too much and
// trims both ends.
func mapHuge(length uintptr, prot, flags int) (unsafe.Pointer, error) {
	base, err := unix.MmapPtr(-1, 0, nil, length+HugePage, prot, flags)
	if err != nil {
		return nil, err
	}
	head := -uintptr(base) & (HugePage - 1)
	tail := HugePage - head
	if head > 0 {
		if err := unix.MunmapPtr(base, head); err != nil {
			return nil, err
		}
		base = unsafe.Add(base, head)
	}
	if err := unix.MunmapPtr(unsafe.Add(base, length), tail); err != nil {
		return nil, err
	}
	adviseHuge(base, length)
	return base, nil
}

// adviseHuge requests huge pages. A kernel without transparent huge pages refuses, and the mapping
// keeps its small pages.
func adviseHuge(base unsafe.Pointer, length uintptr) {
	_ = unix.Madvise(unsafe.Slice((*byte)(base), length), unix.MADV_HUGEPAGE)
}

// Reserve reserves addresses without access, from a multiple of HugePage on. They do not count as
// memory under any overcommit setting of the system.
func Reserve(size int) ([]byte, error) {
	if size > int(^uint(0)>>1)-2*HugePage {
		return nil, errSize
	}
	base, err := mapHuge(uintptr(Round(size)), unix.PROT_NONE, private|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(base), size), nil
}

// remap makes the kernel move page tables instead of bytes. If the mapping cannot grow in place,
// remap reserves aligned addresses first and moves the mapping to them.
func remap(b []byte, size int) ([]byte, error) {
	from, old, length := pointer(b), uintptr(Round(len(b))), uintptr(Round(size))
	huge := old < HugePage && length >= HugePage
	if !huge {
		if base, err := unix.MremapPtr(from, old, nil, length, 0); err == nil {
			return unsafe.Slice((*byte)(base), size), nil
		}
	}
	var to []byte
	flags := unix.MREMAP_MAYMOVE
	if length >= HugePage {
		var err error
		if to, err = Reserve(size); err != nil {
			return nil, err
		}
		flags |= unix.MREMAP_FIXED
	}
	base, err := unix.MremapPtr(from, old, pointer(to), length, flags)
	if err != nil {
		// The kernel may have released the addresses before it failed, so that another goroutine
		// may already own them. They are thus not unmapped. They hold no memory.
		return nil, err
	}
	if huge {
		adviseHuge(base, length)
	}
	return unsafe.Slice((*byte)(base), size), nil
}

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

func unmap(b []byte) error { return unix.MunmapPtr(pointer(b), uintptr(Round(len(b)))) }

// Discard returns the pages of a part of a mapping to the system. Whole huge pages cost least. The
// contents are lost, and later reads may return zeros.
func Discard(b []byte) {
	_ = unix.Madvise(b, unix.MADV_DONTNEED) // if it fails, Unmap still returns the pages
}
