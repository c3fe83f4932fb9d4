package group

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/spill"
)

// maxKeptScratch is the maximum number of bytes of scratch kept from one call to the next.
const maxKeptScratch = 64 << 20

// scratch is working memory that successive calls reuse. Mapping it anew for each call took longer
// than the work, because the system must find and zero the pages. The scratch of closed groups is
// therefore pooled for later ones. Groups with Options.Memory map their own scratch and return it.
type scratch struct {
	chunks  *chunks
	mem     []uint64 // data by row
	used    int      // words of mem in use
	offHeap bool
	mapped  *spill.Memory[uint64] // allocator of mem; nil: the Go heap

	readStores [2]*spill.Store // by kind: rows read from the temporary file; nil before the first
	taker      spill.Taker     // collects rows for the file

	added []uint64 // a bit for each row of a piece, set if the row added a group
	ranks []uint32 // number of bits set in added before each word
}

// scratchPool holds the scratch of closed groups.
var scratchPool sync.Pool

// newScratch returns new scratch outside the Go heap, or pooled scratch on it.
func newScratch(offHeap bool) *scratch {
	if !offHeap {
		if s, ok := scratchPool.Get().(*scratch); ok {
			return s
		}
	}
	return &scratch{offHeap: offHeap, chunks: new(chunks)}
}

// blocks pools values of type *block, one per core at work.
var blocks = sync.Pool{New: func() any { return new(block) }}

// reserve reserves bytes of memory. Slices allocated before must no longer be used.
func (s *scratch) reserve(bytes int) {
	s.used = 0
	if words := (bytes + 7) / 8; words > len(s.mem) {
		s.release() // free the old memory before the new one is allocated
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

// openStore makes the store for rows of a kind that are read from the temporary file.
func (s *scratch) openStore(kind uint8, types []column.Type) {
	s.readStores[kind] = spill.NewStore(nil, types)
	runtime.AddCleanup(s, (*spill.Store).Free, s.readStores[kind]) // if free is not called
}

func (s *scratch) release() {
	if s.mapped != nil {
		s.mapped.Free()
	}
	s.mem, s.mapped = nil, nil
}

// free frees all memory, or returns the scratch to the pool.
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

// trim frees memory of more than maxKeptScratch bytes.
func (s *scratch) trim() {
	if !s.offHeap && 8*len(s.mem) > maxKeptScratch {
		s.mem = nil
	}
	if !s.offHeap && 8*len(s.chunks.mem) > maxKeptScratch {
		s.chunks.release()
	}
}

// allocScratch allocates n elements from the memory that s.reserve has reserved.
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
