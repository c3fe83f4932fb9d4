// Package pm provides memory that outlives the process: the words of a mapped file, with operations
// that control the order in which a crash keeps stores. All writes to such memory go through the
// methods of [Memory]. Tests replace the memory by a [Domain] that records, for each word, the
// values that a crash could leave.
package pm

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Word is the unit of Memory in bytes. After a crash a word has its value before or after a store,
// never a mixture.
const Word = 8

// Memory is an array of words. Several threads may access a word at once by Load, Store and
// CompareAndSwap. Use Write, Read and Clear only for words that one thread owns or that do not
// change.
type Memory struct {
	words  []uint64
	domain Domain
	// writes back stores; nil if stores survive without it
	persist Persist
}

// Domain replaces the mapped memory in tests.
type Domain interface {
	Load(at uint64) uint64
	Store(at, v uint64)
	CompareAndSwap(at, old, v uint64) bool
	Fence()
}

// New returns the memory of a mapped file. The length of mapped must be a multiple of [Word]. If d
// is not nil, all accesses go to d, and only the length of mapped is used.
func New(mapped []byte, d Domain) *Memory {
	return &Memory{words: batch.View[uint64](mapped), domain: d}
}

// NewPersistent returns memory that survives a power failure. Stores start to write back their
// cache lines at once, and Fence waits for the write-backs.
func NewPersistent(mapped []byte, p Persist) *Memory {
	return &Memory{words: batch.View[uint64](mapped), persist: p}
}

// Bytes returns the mapped memory, so that a device can also work on it.
func (m *Memory) Bytes() []byte { return device.Bytes(m.words) }

// Words returns the number of words.
func (m *Memory) Words() uint64 { return uint64(len(m.words)) }

// Load reads a word atomically. All Loads and Stores are ordered.
func (m *Memory) Load(at uint64) uint64 {
	if m.domain != nil {
		return m.domain.Load(at)
	}
	return atomic.LoadUint64(&m.words[at])
}

// Store writes a word atomically. All Loads and Stores are ordered.
func (m *Memory) Store(at, v uint64) {
	m.store(at, v)
	m.writeBack(at, at+1)
}

func (m *Memory) store(at, v uint64) {
	if m.domain != nil {
		m.domain.Store(at, v)
		return
	}
	atomic.StoreUint64(&m.words[at], v)
}

// writeBack starts to write back words [lo,hi) if the memory is persistent.
func (m *Memory) writeBack(lo, hi uint64) {
	if m.persist != nil {
		m.persist.WriteBack(m.words[lo:hi])
	}
}

// CompareAndSwap writes v if the word equals old, and reports whether it did.
func (m *Memory) CompareAndSwap(at, old, v uint64) bool {
	if m.domain != nil {
		return m.domain.CompareAndSwap(at, old, v)
	}
	swapped := atomic.CompareAndSwapUint64(&m.words[at], old, v)
	if swapped {
		m.writeBack(at, at+1)
	}
	return swapped
}

// At returns the address of a word for prefetching; at is the word's index. It returns nil if the
// memory has a domain.
func (m *Memory) At(at uint64) unsafe.Pointer {
	if m.domain != nil {
		return nil
	}
	return unsafe.Pointer(&m.words[at])
}

// Fence orders the stores of this thread: if a crash keeps a store after the fence, it keeps all
// stores before the fence.
//
// When a process ends, the page cache keeps all its stores to a file, so only the order of the
// stores matters. Fence need not enforce the order, since each store of this package is atomic or
// lies between two atomic stores. In persistent memory, Fence waits for the write-backs.
func (m *Memory) Fence() {
	switch {
	case m.domain != nil:
		m.domain.Fence()
	case m.persist != nil:
		m.persist.Fence()
	}
}

// Write writes b to consecutive words; at is the index of the first. It fills the rest of the last
// word with zeros.
func (m *Memory) Write(at uint64, b []byte) {
	whole := len(b) / Word
	if m.domain == nil {
		copy(device.Bytes(m.words[at:at+uint64(whole)]), b)
	} else {
		for i := range whole {
			m.domain.Store(at+uint64(i), binary.NativeEndian.Uint64(b[i*Word:]))
		}
	}
	if tail := b[whole*Word:]; len(tail) > 0 {
		var last [Word]byte
		copy(last[:], tail)
		m.store(at+uint64(whole), binary.NativeEndian.Uint64(last[:]))
	}
	m.writeBack(at, at+WordsOf(len(b)))
}

// Read reads len(b) bytes from consecutive words; at is the index of the first.
func (m *Memory) Read(at uint64, b []byte) {
	if m.domain == nil {
		copy(b, device.Bytes(m.words[at:at+WordsOf(len(b))]))
		return
	}
	var word [Word]byte
	for i := 0; i < len(b); i += Word {
		binary.NativeEndian.PutUint64(word[:], m.domain.Load(at+uint64(i/Word)))
		copy(b[i:], word[:])
	}
}

// Equal reports whether consecutive words contain the bytes b; at is the index of the first word.
func (m *Memory) Equal(at uint64, b []byte) bool {
	if m.domain == nil {
		return bytes.Equal(b, device.Bytes(m.words[at : at+WordsOf(len(b))])[:len(b)])
	}
	data := make([]byte, len(b))
	m.Read(at, data)
	return bytes.Equal(b, data)
}

// Clear writes zeros to words [lo,hi).
func (m *Memory) Clear(lo, hi uint64) {
	if m.domain == nil {
		clear(m.words[lo:hi])
		m.writeBack(lo, hi)
		return
	}
	for at := lo; at < hi; at++ {
		m.domain.Store(at, 0)
	}
}

// WordsOf returns the number of words for size bytes.
func WordsOf(size int) uint64 { return uint64(size+Word-1) / Word }
