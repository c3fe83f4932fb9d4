package group

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/spill"
)

// keepScratch is the maximum number of bytes of scratch that stay from one call to the next.
const keepScratch = 64 << 20

// scratch is memory that calls use one after the other. The system would have to find and zero
// newly mapped memory each time, which took longer than the work on it. So the scratch of closed
// groups is kept for the next ones. Groups with Options.Memory map theirs and return it.
type scratch struct {
	chunks  *chunks
	mem     []uint64 // for data by row
	used    int      // words in use
	offHeap bool
	mapped  *spill.Memory[uint64] // allocator of mem; nil: the Go heap

	read  [2]*spill.Store // rows from the temporary file, by kind; nil: none yet
	taker spill.Taker     // of rows for the file

	seen   []uint64 // bits of rows of a piece that added a group
	before []uint32 // number of bits set before each word
}

// kept holds the scratch of closed groups, for the next ones.
var kept sync.Pool

// newScratch returns scratch that is mapped and counted, or some that may be kept.
func newScratch(offHeap bool) *scratch {
	if !offHeap {
		if s, ok := kept.Get().(*scratch); ok {
			return s
		}
	}
	return &scratch{offHeap: offHeap, chunks: new(chunks)}
}

// blocks holds the memory of cores, of type *block.
var blocks = sync.Pool{New: func() any { return new(block) }}

// fit makes room for some bytes, and ends the use of all memory that was lent before.
func (s *scratch) fit(bytes int) {
	s.used = 0
	if words := (bytes + 7) / 8; words > len(s.mem) {
		s.release() // before both sizes are allocated
		if s.offHeap {
			if m, err := spill.Make[uint64](nil, words); err == nil {
				runtime.AddCleanup(s, (*spill.Memory[uint64]).Free, m) // if free is not called
				s.mem, s.mapped = m.Slice, m
				return
			}
		}
		s.mem = make([]uint64, words)
	}
}

// newRead makes memory for rows from the temporary file.
func (s *scratch) newRead(kind uint8, types []column.Type) {
	s.read[kind] = spill.NewStore(nil, types)
	runtime.AddCleanup(s, (*spill.Store).Free, s.read[kind]) // if free is not called
}

// release returns the memory for rows.
func (s *scratch) release() {
	if s.mapped != nil {
		s.mapped.Free()
	}
	s.mem, s.mapped = nil, nil
}

// free returns all memory, or keeps some for other groups.
func (s *scratch) free() {
	if s.offHeap {
		s.release()
		s.chunks.release()
		s.read[kindStates].Free()
		s.read[kindRows].Free()
		return
	}
	s.trim()
	kept.Put(s)
}

// trim returns a large amount of memory.
func (s *scratch) trim() {
	if !s.offHeap && 8*len(s.mem) > keepScratch {
		s.mem = nil
	}
	if !s.offHeap && 8*len(s.chunks.mem) > keepScratch {
		s.chunks.release()
	}
}

// lend returns n elements of the memory of s, which has room for them.
func lend[T uint32 | uint64](s *scratch, n int) []T {
	mem := s.mem[s.used:]
	s.used += (n*int(unsafe.Sizeof(T(0))) + 7) / 8
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem))), n)
}

// sized returns n elements of kept memory.
func sized[T any](kept *[]T, n int) []T {
	if cap(*kept) < n {
		*kept = make([]T, n)
	}
	return (*kept)[:n]
}
