// Package arena stores byte strings, called items, by the million. A word identifies each item. The
// word contains a short item, or refers to a longer one. Tables find an item by a 64-bit key.
//
// The word of an item of up to [MaxShort] bytes has the bytes in its low 56 bits, the first byte
// lowest, and the length in the high 8 bits. The word of a longer item is the bit [Long] and the
// item's place in an [Arena].
//
// The key of a short item is [Mix] of its word. The key of a long item is Mix of its hash with the
// bit Long set. Mix is a bijection, so no other item has the key of a short item. Two long items
// may have the same key.
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
	// minChunk and maxChunk are the limits for the size of an arena's chunks in bytes. The first
	// chunks are small, since most inputs are small. Later chunks are large, since each may have an
	// unused end.
	minChunk = 4 << 10
	maxChunk = 4 << 20
	// An item larger than maxChunk/bigShare gets a separate chunk.
	bigShare = 8
)

// Arena stores the bytes of long items, each after its length as a varint. The place of an item has
// the chunk's number in bits 32 to 62 and the offset in the chunk in bits 0 to 31.
type Arena struct {
	// Pool allocates the chunks. If Pool is nil, the chunks are on the Go heap. The arena must not
	// be used once Pool is freed.
	Pool *hostmem.Pool

	mu     sync.Mutex
	chunks [][]byte
	size   atomic.Int64
}

// Bytes returns the size of the arena's memory, including unused ends of chunks.
func (a *Arena) Bytes() int64 { return a.size.Load() }

// addChunk adds a chunk and returns its number. Several goroutines may call it at once, but not
// while another one calls [Arena.At].
func (a *Arena) addChunk(chunk []byte) (number int) {
	a.size.Add(int64(len(chunk)))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.chunks = append(a.chunks, chunk)
	return len(a.chunks) - 1
}

// At returns the item for a word that [Writer.Put] returned.
func (a *Arena) At(word uint64) []byte {
	b := a.chunks[word&^Long>>32][uint32(word):]
	n, k := uint64(b[0]), 1
	if n >= 0x80 {
		n, k = binary.Uvarint(b)
	}
	return b[k : k+int(n)]
}

// Address returns the address of the first byte that At reads. Use it for prefetching.
func (a *Arena) Address(word uint64) unsafe.Pointer {
	return unsafe.Pointer(&a.chunks[word&^Long>>32][uint32(word)])
}

// Writer appends items to an arena. Each goroutine must use a separate Writer.
type Writer struct {
	arena  *Arena
	number int
	chunk  []byte
	used   int
}

// NewWriter returns a writer that appends to a.
func NewWriter(a *Arena) Writer { return Writer{arena: a} }

// Size returns the number of bytes that a long item takes in an arena, including its length.
func Size(item []byte) int {
	n := 1 + len(item)
	for k := len(item); k >= 0x80; k >>= 7 {
		n++
	}
	return n
}

// Put copies a long item to the arena and returns its word.
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

func (w *Writer) newChunk(size int) {
	w.chunk = w.arena.Pool.Make(w.chunkSize(size))
	w.number = w.arena.addChunk(w.chunk)
	w.used = 0
}

func (w *Writer) chunkSize(size int) int {
	return max(min(2*len(w.chunk), maxChunk), minChunk, size)
}

// Reserve reserves size bytes for items, as [Size] counts them, and returns a writer for these
// items. The returned writer may be used concurrently with w and other writers.
func (w *Writer) Reserve(size int) Writer {
	switch {
	// offsets have 32 bits, so Put must create several chunks
	case size == 0 || uint64(size) > math.MaxUint32:
		return Writer{arena: w.arena}
	case w.used+size <= len(w.chunk):
	// a new shared chunk could leave more than a quarter of the current one unused
	case size > w.chunkSize(0)/bigShare:
		chunk := w.arena.Pool.Make(size)
		return Writer{arena: w.arena, number: w.arena.addChunk(chunk), chunk: chunk}
	default:
		w.newChunk(size)
	}
	part := Writer{arena: w.arena, number: w.number, chunk: w.chunk[:w.used+size], used: w.used}
	w.used += size
	return part
}

// Split returns a writer for the next size bytes of a reservation. It may be used concurrently with
// w.
func (w *Writer) Split(size int) Writer {
	if len(w.chunk)-w.used < size { // Reserve reserved no memory, so Put creates chunks
		return Writer{arena: w.arena}
	}
	part := Writer{arena: w.arena, number: w.number, chunk: w.chunk[:w.used+size], used: w.used}
	w.used += size
	return part
}

// MaxGrowth returns the maximum growth of the arena in bytes if size bytes are reserved in any
// number of parts. All chunks but the last are at least three quarters full.
func (w *Writer) MaxGrowth(size int) int64 {
	if w.used+size <= len(w.chunk) {
		return 0
	}
	return int64(size)*4/3 + int64(max(w.chunkSize(0), min(maxChunk, 3*size)))
}

// wordOf returns the word of the item at offset off of a chunk. It panics if either number has too
// many bits, because the word would refer to another item.
func wordOf(number, off int) uint64 {
	if uint64(off) > math.MaxUint32 || uint64(number) >= Long>>32 {
		panic(fmt.Sprintf("arena: no word for offset %d of chunk %d", off, number))
	}
	return Long | uint64(number)<<32 | uint64(off)
}
