package hostmem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Copies reports whether Remap holds both mappings for a moment, in order to copy.
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

// mapHuge maps memory that begins on a huge-page boundary: the mapping is made
// too large by one huge page and trimmed on both sides.
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

// adviseHuge asks for huge pages. A kernel without transparent huge pages refuses the advice, and
// the mapping keeps its small pages.
func adviseHuge(base unsafe.Pointer, length uintptr) {
	_ = unix.Madvise(unsafe.Slice((*byte)(base), length), unix.MADV_HUGEPAGE)
}

// Reserve takes addresses without access to them, on a huge-page boundary. They count as no
// memory, whatever the system does about overcommitment.
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

// remap lets the kernel move page tables instead of bytes. If the mapping cannot grow where it
// lies, remap reserves aligned addresses first and moves the mapping onto them.
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
		// The kernel may have released the addresses before it failed, and another goroutine may
		// own them now. So they are not unmapped; they hold no memory.
		return nil, err
	}
	if huge {
		adviseHuge(base, length)
	}
	return unsafe.Slice((*byte)(base), size), nil
}

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

func unmap(b []byte) error { return unix.MunmapPtr(pointer(b), uintptr(Round(len(b)))) }

// Discard returns the pages of a part of a mapping to the system: whole huge pages cost the least.
// What they hold is lost, and may be zero from then on.
func Discard(b []byte) {
	_ = unix.Madvise(b, unix.MADV_DONTNEED) // advice: without it, Unmap returns them
}
