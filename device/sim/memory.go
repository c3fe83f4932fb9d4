package sim

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// segment is a contiguous block of memory: an allocation, the shared memory of a block, or the
// local memory of a thread. It records which of its bytes have been written.
type segment struct {
	name    string // name in messages: "block of 64 bytes"
	base    uint64 // address of the first byte
	size    int
	data    []byte  // nil after the segment was freed
	written []uint8 // one bit per byte
	private bool    // whether only one thread can access the segment
	// constant marks memory that is written only when its module is loaded.
	constant bool
	// history and bulk serve weak memory. history holds stores that may not be visible to all
	// threads yet. bulk holds parts of transfers, if races are checked.
	history history
	bulk    []bulk
	// users are works that have accessed the segment, or may have.
	users users
}

func newSegment(what string, base uint64, size int) *segment {
	return &segment{name: what, base: base, size: size, data: make([]byte, size+16), written: make([]uint8, size/8+3)}
}

// get reads size bytes (1, 2, 4 or 8) at an aligned offset.
func (s *segment) get(off uint64, size int) uint64 {
	switch size {
	case 8:
		return binary.LittleEndian.Uint64(s.data[off:])
	case 4:
		return uint64(binary.LittleEndian.Uint32(s.data[off:]))
	case 2:
		return uint64(binary.LittleEndian.Uint16(s.data[off:]))
	}
	return uint64(s.data[off])
}

// set writes size bytes (1, 2, 4 or 8) at an aligned offset.
func (s *segment) set(off uint64, size int, v uint64) {
	switch size {
	case 8:
		binary.LittleEndian.PutUint64(s.data[off:], v)
	case 4:
		binary.LittleEndian.PutUint32(s.data[off:], uint32(v))
	case 2:
		binary.LittleEndian.PutUint16(s.data[off:], uint16(v))
	default:
		s.data[off] = byte(v)
	}
	s.written[off>>3] |= uint8(1<<size-1) << (off & 7)
}

// isWritten reports whether size bytes (1, 2, 4 or 8) at an aligned offset have all been written.
func (s *segment) isWritten(off uint64, size int) bool {
	want := uint8(1<<size-1) << (off & 7)
	return s.written[off>>3]&want == want
}

// areWritten reports whether n elements of size bytes have all been written.
func (s *segment) areWritten(off uint64, size, n int) bool {
	for i := range n {
		if !s.isWritten(off+uint64(i*size), size) {
			return false
		}
	}
	return true
}

// mark marks size bytes as written or as unwritten.
func (s *segment) mark(off, size int, written bool) {
	end := off + size
	first, last := (off+7)&^7, end&^7 // between them lie whole bytes of written
	if first > last {
		s.markBits(off, end, written)
		return
	}
	s.markBits(off, first, written)
	whole := s.written[first/8 : last/8]
	if clear(whole); written && len(whole) > 0 {
		whole[0] = 0xff
		for n := 1; n < len(whole); n *= 2 {
			copy(whole[n:], whole[:n])
		}
	}
	s.markBits(last, end, written)
}

// markBits marks the bytes [off,end), which must share one byte of s.written.
func (s *segment) markBits(off, end int, written bool) {
	if off == end {
		return
	}
	mask := uint8(1<<(end-off)-1) << (off % 8)
	if s.written[off/8] &^= mask; written {
		s.written[off/8] |= mask
	}
}

// clearWritten marks all bytes as unwritten. Shared memory is in this state when a block starts.
func (s *segment) clearWritten() {
	clear(s.written)
	s.history = nil
}

// heap is global memory. It never reuses addresses, so that it recognizes an access to a freed
// segment. Segments lie apart, so that it also recognizes an access beyond the end of a segment.
type heap struct {
	segs  []*segment // ascending by base, including freed segments
	next  uint64
	used  uint64
	limit uint64
}

const (
	// heapBase is the first address of global memory. Two small adjacent parameters of a kernel
	// never form such an address.
	heapBase  = 0x1b57_0000_0000
	heapAlign = 256
	// heapGap determines the gap after a segment, which is about the number of remaining addresses
	// divided by heapGap. The gap is 1 GiB at first, then less, so that addresses never run out.
	// Wrong accesses mostly hit gaps.
	heapGap = 1 << 16
	// maxBlockSize is the maximum size of an allocation in bytes, more than an H200 has.
	maxBlockSize = 1 << 38
	// maxFreed bounds the number of freed segments in heap.segs.
	maxFreed = 1 << 12
)

func newHeap(limit uint64) *heap { return &heap{next: heapBase, limit: limit} }

func (h *heap) alloc(size int) (*segment, bool) {
	end := h.next + uint64(size)
	if size > maxBlockSize || uint64(size) > h.limit-h.used || end >= sharedWindow-heapAlign {
		return nil, false
	}
	s := newSegment(fmt.Sprintf("block of %d bytes", size), h.next, size)
	h.segs = append(h.segs, s)
	gap := uint64(1) << (bits.Len64(max((sharedWindow-end)/heapGap, heapAlign)) - 1)
	h.next = (end + gap + heapAlign - 1) &^ (heapAlign - 1)
	h.used += uint64(size)
	return s, true
}

// at returns the segment that begins at base, or nil.
func (h *heap) at(base uint64) *segment {
	i := h.indexBelow(base)
	if i < 0 || h.segs[i].base != base || h.segs[i].data == nil {
		return nil
	}
	return h.segs[i]
}

// free releases a segment. If segs has too many freed ones, it removes the oldest.
func (h *heap) free(s *segment) {
	h.used -= uint64(s.size)
	s.data, s.written, s.history, s.bulk, s.users = nil, nil, nil, nil, nil
	if freed := h.freed(); freed > maxFreed {
		h.segs = slices.DeleteFunc(h.segs, func(s *segment) bool {
			if s.data == nil && freed > maxFreed/2 {
				freed--
				return true
			}
			return false
		})
	}
}

// freed counts the freed segments in segs, or returns 0 if segs has at most maxFreed elements.
func (h *heap) freed() int {
	if len(h.segs) <= maxFreed {
		return 0
	}
	n := 0
	for _, s := range h.segs {
		if s.data == nil {
			n++
		}
	}
	return n
}

// indexBelow returns the index of the last segment that starts at or before addr, or -1.
func (h *heap) indexBelow(addr uint64) int {
	i, found := slices.BinarySearchFunc(h.segs, addr, func(s *segment, addr uint64) int {
		switch {
		case s.base < addr:
			return -1
		case s.base > addr:
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	return i
}

// find returns the segment that contains [addr, addr+size), or the reason why none does.
func (h *heap) find(addr uint64, size int) (*segment, string) {
	i := h.indexBelow(addr)
	if i < 0 {
		return nil, fmt.Sprintf("address 0x%x: no memory there", addr)
	}
	s := h.segs[i]
	off := addr - s.base
	switch {
	case s.data == nil && off < uint64(s.size):
		return nil, fmt.Sprintf("address 0x%x: byte %d of a %s that was freed", addr, off, s.name)
	case s.data != nil && off < uint64(s.size) && uint64(size) <= uint64(s.size)-off:
		return s, ""
	case off < uint64(s.size)+1<<20:
		return nil, fmt.Sprintf("address 0x%x: byte %d of a %s", addr, off, s.name)
	}
	return nil, fmt.Sprintf("address 0x%x: no memory there", addr)
}

// copyFrom copies size bytes at offset from in the segment o to offset to in s. Bytes that are
// unwritten in o become unwritten in s.
func (s *segment) copyFrom(to int, o *segment, from, size int) {
	written := make([]bool, size)
	for i := range written {
		written[i] = o.isWritten(uint64(from+i), 1)
	}
	copy(s.data[to:to+size], o.data[from:from+size])
	for i, w := range written {
		s.mark(to+i, 1, w)
	}
}
