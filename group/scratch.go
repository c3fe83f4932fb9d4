package group

import (
	"sync"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// keepScratch is how many bytes of scratch stay from one call to the next.
const keepScratch = 64 << 20

// scratch is memory that calls use one after the other. What there is of it for each row lies outside of Go's
// heap, in huge pages if there are any: pages of 4 KiB, taken for the first time, cost as much as the work on them.
type scratch struct {
	blocks sync.Pool // of *block
	mem    device.Buffer
	used   int

	counts []uint32
	seen   []uint64 // bits of rows of a piece that brought a group
	before []uint32 // how many are set before each word
}

func (s *scratch) block() *block {
	if b, ok := s.blocks.Get().(*block); ok {
		return b
	}
	return new(block)
}

// fit makes room for so many bytes, all of which are free again.
func (s *scratch) fit(dev device.Device, bytes int) error {
	s.used = 0
	if bytes <= s.mem.Size {
		return nil
	}
	if err := s.free(dev); err != nil {
		return err
	}
	mem, err := dev.Alloc(bytes)
	if err != nil {
		return err
	}
	s.mem = mem
	return nil
}

func (s *scratch) free(dev device.Device) error {
	mem := s.mem
	s.mem, s.used = device.Buffer{}, 0
	if mem.Size == 0 {
		return nil
	}
	return dev.Free(mem)
}

// lend is n elements of what there is room for.
func lend[T uint32 | uint64](s *scratch, n int) []T {
	mem := s.mem.Host[s.used:]
	s.used += (n*int(unsafe.Sizeof(T(0))) + 7) &^ 7
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem))), n)
}

// sized is a slice of n elements of memory that is kept.
func sized[T any](kept *[]T, n int) []T {
	if cap(*kept) < n {
		*kept = make([]T, n)
	}
	return (*kept)[:n]
}

// places are n counts of 0.
func (s *scratch) places(n int) []uint32 {
	p := sized(&s.counts, n)
	clear(p)
	return p
}
