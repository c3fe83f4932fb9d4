package hostmem

import (
	"sync"
	"unsafe"
)

const (
	// minChunk and maxChunk bound the chunks of a pool in bytes. Each chunk is twice as large as
	// the one before. A piece of more than maxChunk/8 bytes has its own chunk.
	minChunk = 16 << 10
	maxChunk = 32 << 20
)

// Pool allocates pieces of memory outside the Go heap, which Free returns all at once. The first
// [HugePage] bytes are on the Go heap, because mapping small pages costs more than it saves. A Pool
// is safe for concurrent use. A nil Pool allocates on the Go heap, and its Free does nothing.
type Pool struct {
	mu     sync.Mutex
	mapped [][]byte
	total  int    // bytes of all chunks
	chunk  int    // bytes of the latest shared chunk
	rest   []byte // unused part of that chunk
}

// Make returns n zeroed bytes, at a multiple of 8. If the system refuses memory, the bytes come
// from the Go heap. If the heap cannot grow either, the process ends.
func (p *Pool) Make(n int) []byte {
	if p == nil {
		return make([]byte, n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	size := (n + 7) &^ 7
	if size > maxChunk/8 {
		return p.next(n)
	}
	if size > len(p.rest) {
		p.chunk = max(minChunk, min(2*p.chunk, maxChunk))
		p.rest = p.next(max(p.chunk, size))
	}
	piece := p.rest[:n:n]
	p.rest = p.rest[size:]
	return piece
}

// next returns a new chunk of n bytes.
func (p *Pool) next(n int) []byte {
	if p.total += n; p.total <= HugePage {
		return make([]byte, n)
	}
	b, err := Map(n)
	if err != nil {
		return make([]byte, n)
	}
	p.mapped = append(p.mapped, b)
	return b
}

// Free returns all pieces to the system. They must not be used afterwards. The pool may be used
// again.
func (p *Pool) Free() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.mapped {
		_ = Unmap(b) // fails only for what Map has not returned
	}
	p.mapped, p.rest, p.chunk, p.total = nil, nil, 0, 0
}

// Slice returns n zeroed values in memory of a pool. The values must not contain pointers.
func Slice[T any](p *Pool, n int) []T {
	if p == nil {
		return make([]T, n)
	}
	if n == 0 {
		return nil
	}
	b := p.Make(n * int(unsafe.Sizeof(*new(T))))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
