// Package arena stores byte strings, items, by the million. A word identifies each item: it holds
// short items and leads to the others. Tables find an item by a 64-bit key.
//
// The word of an item of up to [MaxShort] bytes is its bytes in the low 56 bits, the first byte
// lowest, and its length above them. The word of a longer item is the bit [Long] and its place in
// an [Arena].
//
// The key is [Mix] of the word, or of the item's hash with the bit Long set. Mix is a bijection, so
// a short item has a key that no other item has. Two long ones may have the same.
package arena

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/internal/hostmem"
)

const (
	// minChunk and maxChunk bound the size of an arena's chunks in bytes. The first are small
	// because most inputs are. Later ones are large because each may have an unused end.
	minChunk = 4 << 10
	maxChunk = 4 << 20
	// An item larger than maxChunk/bigShare gets a chunk of its own.
	bigShare = 8
)

// Arena stores the bytes of long items, each after its length as a varint. A place in it is the
// chunk's number in bits 32 to 62 and an offset below.
type Arena struct {
	// Pool allocates the chunks. Its Free ends the arena. Nil: the Go heap.
	Pool *hostmem.Pool

	mu     sync.Mutex
	chunks [][]byte
	size   atomic.Int64
}

// Bytes returns the size of the arena's memory, including unused ends of chunks.
func (a *Arena) Bytes() int64 { return a.size.Load() }

// addChunk adds a chunk. Safe for concurrent use, but not with [Arena.At].
func (a *Arena) addChunk(chunk []byte) (number int) {
	a.size.Add(int64(len(chunk)))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.chunks = append(a.chunks, chunk)
	return len(a.chunks) - 1
}

// At returns the item of a word that [Writer.Put] has returned.
func (a *Arena) At(word uint64) []byte {
	b := a.chunks[word&^Long>>32][uint32(word):]
	n, k := uint64(b[0]), 1
	if n >= 0x80 {
		n, k = binary.Uvarint(b)
	}
	return b[k : k+int(n)]
}

// Address returns the address that At reads first, for prefetching.
func (a *Arena) Address(word uint64) unsafe.Pointer {
	return unsafe.Pointer(&a.chunks[word&^Long>>32][uint32(word)])
}

// Writer appends items to an arena. Each goroutine has its own.
type Writer struct {
	arena  *Arena
	number int
	chunk  []byte
	used   int
}

// NewWriter returns a writer to a.
func NewWriter(a *Arena) Writer { return Writer{arena: a} }

// Size returns the number of bytes of an arena that an item takes.
func Size(item []byte) int {
	n := 1 + len(item)
	for k := len(item); k >= 0x80; k >>= 7 {
		n++
	}
	return n
}

// Put copies an item and returns its word.
func (w *Writer) Put(item []byte) uint64 {
	if n := len(item); n < 0x80 && w.used+n < len(w.chunk) && uint64(w.used) <= math.MaxUint32 {
		to := w.chunk[w.used : w.used+1+n]
		to[0] = byte(n)
		copy(to[1:], item)
		word := Long | uint64(w.number)<<32 | uint64(w.used)
		w.used += len(to)
		return word
	}
	var length [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(length[:], uint64(len(item)))
	size := k + len(item)
	if w.used+size > len(w.chunk) {
		if size > maxChunk/bigShare {
			chunk := w.arena.Pool.Make(size)
			copy(chunk[copy(chunk, length[:k]):], item)
			return wordOf(w.arena.addChunk(chunk), 0)
		}
		w.newChunk(size)
	}
	off := w.used
	w.used += copy(w.chunk[w.used:], length[:k])
	w.used += copy(w.chunk[w.used:], item)
	return wordOf(w.number, off)
}

// newChunk begins another chunk, with room for size bytes.
func (w *Writer) newChunk(size int) {
	w.chunk = w.arena.Pool.Make(w.chunkSize(size))
	w.number = w.arena.addChunk(w.chunk)
	w.used = 0
}

func (w *Writer) chunkSize(size int) int {
	return max(min(2*len(w.chunk), maxChunk), minChunk, size)
}

// Reserve returns a writer for items of size bytes together, as [Size] counts them. It may be used
// concurrently with w and others.
func (w *Writer) Reserve(size int) Writer {
	switch {
	// offsets have 32 bits, so Put makes chunks for more
	case size == 0 || uint64(size) > math.MaxUint32:
		return Writer{arena: w.arena}
	case w.used+size <= len(w.chunk):
	case size > w.chunkSize(0)/bigShare: // otherwise more than a quarter of a chunk might stay free
		chunk := w.arena.Pool.Make(size)
		return Writer{arena: w.arena, number: w.arena.addChunk(chunk), chunk: chunk}
	default:
		w.newChunk(size)
	}
	part := Writer{arena: w.arena, number: w.number, chunk: w.chunk[:w.used+size], used: w.used}
	w.used += size
	return part
}

// Split returns a writer for the next size bytes of a writer of Reserve. It may be used
// concurrently with w.
func (w *Writer) Split(size int) Writer {
	if len(w.chunk)-w.used < size { // Reserve made no room: Put makes chunks
		return Writer{arena: w.arena}
	}
	part := Writer{arena: w.arena, number: w.number, chunk: w.chunk[:w.used+size], used: w.used}
	w.used += size
	return part
}

// MaxGrowth returns the maximum growth of an arena by a reservation for items of size bytes
// together, in any number of parts: three quarters of all chunks but the last are used.
func (w *Writer) MaxGrowth(size int) int64 {
	if w.used+size <= len(w.chunk) {
		return 0
	}
	return int64(size)*4/3 + int64(max(w.chunkSize(0), min(maxChunk, 3*size)))
}

// wordOf returns the word of a place. It panics if the place exceeds the bits, because the word
// would be another item's.
func wordOf(number, off int) uint64 {
	if uint64(off) > math.MaxUint32 || uint64(number) >= Long>>32 {
		panic(fmt.Sprintf("arena: no word for offset %d of chunk %d", off, number))
	}
	return Long | uint64(number)<<32 | uint64(off)
}
