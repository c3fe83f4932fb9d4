package distinct

import (
	"encoding/binary"
	"sync"
)

const (
	// minChunk and maxChunk bound the size of an arena's chunks in bytes. The
	// first are small because most inputs are; later ones are large because
	// each may be left with an unused end.
	minChunk = 64 << 10
	maxChunk = 4 << 20
	// An item larger than maxChunk/bigShare gets a chunk of its own.
	bigShare = 8
)

// arena keeps the bytes of long items, each with its length before it as a
// varint. A place in it is the chunk's number in bits 32 to 62 and an offset
// below.
type arena struct {
	mu     sync.Mutex
	chunks [][]byte
}

// add makes a chunk known. Safe for concurrent use; not beside [arena.at].
func (a *arena) add(chunk []byte) (number int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.chunks = append(a.chunks, chunk)
	return len(a.chunks) - 1
}

// at returns the item whose word was returned by arenaWriter.put.
func (a *arena) at(word uint64) []byte {
	b := a.chunks[word&^longWord>>32][uint32(word):]
	n, k := uint64(b[0]), 1
	if n >= 0x80 {
		n, k = binary.Uvarint(b)
	}
	return b[k : k+int(n)]
}

// arenaWriter appends items to an arena. Each goroutine has its own.
type arenaWriter struct {
	arena  *arena
	number int
	chunk  []byte
	used   int
}

// put copies an item and returns its word.
func (w *arenaWriter) put(item []byte) uint64 {
	var length [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(length[:], uint64(len(item)))
	size := k + len(item)
	if size > maxChunk/bigShare {
		own := make([]byte, size)
		copy(own[copy(own, length[:k]):], item)
		return place(w.arena.add(own), 0)
	}
	if w.used+size > len(w.chunk) {
		w.chunk = make([]byte, max(min(2*len(w.chunk), maxChunk), minChunk, size))
		w.number = w.arena.add(w.chunk)
		w.used = 0
	}
	off := w.used
	w.used += copy(w.chunk[w.used:], length[:k])
	w.used += copy(w.chunk[w.used:], item)
	return place(w.number, off)
}

func place(number, off int) uint64 {
	return longWord | uint64(number)<<32 | uint64(off)
}
