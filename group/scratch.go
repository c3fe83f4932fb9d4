package group

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/spill"
)

// maxKeptScratch is the maximum number of bytes of scratch that stay from one call to the next.
const maxKeptScratch = 64 << 20

// scratch is memory that calls use one after the other. The system would have to find and zero
// newly mapped memory each time, which took longer than the work on it. So the scratch of closed
// groups is kept for the next ones. Groups with Options.Memory map theirs and return it.
type scratch struct {
	chunks  *chunks
	mem     []uint64 // for data by row
	used    int      // words in use
	offHeap bool
	mapped  *spill.Memory[uint64] // allocator of mem; nil: the Go heap

	readStores [2]*spill.Store // rows from the temporary file, by kind; nil: none yet
	taker      spill.Taker     // of rows for the file

	added []uint64 // bits of rows of a piece that added a group
	ranks []uint32 // number of bits set before each word
}

// scratchPool holds the scratch of closed groups, for the next ones.
var scratchPool sync.Pool

// newScratch returns scratch that is mapped and counted, or scratch that may be pooled.
func newScratch(offHeap bool) *scratch {
	if !offHeap {
		if s, ok := scratchPool.Get().(*scratch); ok {
			return s
		}
	}
	return &scratch{offHeap: offHeap, chunks: new(chunks)}
}

// blocks holds the memory of cores, of type *block.
var blocks = sync.Pool{New: func() any { return new(block) }}

// reserve reserves some bytes, and ends the use of all memory that was allocated before.
func (s *scratch) reserve(bytes int) {
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

// openStore makes memory for rows from the temporary file.
func (s *scratch) openStore(kind uint8, types []column.Type) {
	s.readStores[kind] = spill.NewStore(nil, types)
	runtime.AddCleanup(s, (*spill.Store).Free, s.readStores[kind]) // if free is not called
}

// release returns the memory for rows.
func (s *scratch) release() {
	if s.mapped != nil {
		s.mapped.Free()
	}
	s.mem, s.mapped = nil, nil
}

// free returns all memory, or puts it into the pool for other groups.
func (s *scratch) free() {
	if s.offHeap {
		s.release()
		s.chunks.release()
		s.readStores[kindStates].Free()
		s.readStores[kindRows].Free()
		return
	}
	s.trim()
	scratchPool.Put(s)
}

// trim returns a large amount of memory.
func (s *scratch) trim() {
	if !s.offHeap && 8*len(s.mem) > maxKeptScratch {
		s.mem = nil
	}
	if !s.offHeap && 8*len(s.chunks.mem) > maxKeptScratch {
		s.chunks.release()
	}
}

// allocScratch allocates n elements of the memory of s, which reserve has reserved.
func allocScratch[T uint32 | uint64](s *scratch, n int) []T {
	mem := s.mem[s.used:]
	s.used += (n*int(unsafe.Sizeof(T(0))) + 7) / 8
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem))), n)
}

// resize returns n elements of buf, which grows if necessary.
func resize[T any](buf *[]T, n int) []T {
	if cap(*buf) < n {
		*buf = make([]T, n)
	}
	return (*buf)[:n]
}
