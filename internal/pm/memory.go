// Package pm is memory that outlives the process: words of a mapped file, what may
// be done to them, and the order in which a crash may have kept it. Whoever writes
// such memory does so by the methods of [Memory]; tests put a [Domain] behind them
// that remembers, word by word, what a crash at this point could have left.
package pm

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Word is the unit of Memory in bytes: a crash leaves each word as it was before
// or after a store, never half of either.
const Word = 8

// Memory is words by their number. Words that several threads touch are read and
// written by Load, Store and CompareAndSwap; Write, Read and Clear are for what one
// thread alone has, or nobody changes.
type Memory struct {
	words   []uint64
	domain  Domain
	persist Persist // nil: what has been stored survives as it is
}

// Domain stands in for the memory in tests.
type Domain interface {
	Load(at uint64) uint64
	Store(at, v uint64)
	CompareAndSwap(at, old, v uint64) bool
	Fence()
}

// New is memory of a mapped file, whose length is a multiple of [Word]. With a
// domain, all goes to that, and mapped is only what it says of the length.
func New(mapped []byte, d Domain) *Memory {
	return &Memory{words: batch.View[uint64](mapped), domain: d}
}

// NewPersistent is memory that survives a power failure: what is stored is written back
// out of the caches at once, and Fence waits for that.
func NewPersistent(mapped []byte, p Persist) *Memory {
	return &Memory{words: batch.View[uint64](mapped), persist: p}
}

// Bytes is the memory itself, for a device that works on it, too.
func (m *Memory) Bytes() []byte { return device.Bytes(m.words) }

// Words is how many there are.
func (m *Memory) Words() uint64 { return uint64(len(m.words)) }

// Load reads a word, in order with all other Loads and Stores.
func (m *Memory) Load(at uint64) uint64 {
	if m.domain != nil {
		return m.domain.Load(at)
	}
	return atomic.LoadUint64(&m.words[at])
}

// Store writes a word, in order with all other Loads and Stores.
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

// writeBack follows whatever writes words [lo,hi).
func (m *Memory) writeBack(lo, hi uint64) {
	if m.persist != nil {
		m.persist.WriteBack(m.words[lo:hi])
	}
}

// CompareAndSwap writes a word if it is what the caller believes.
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

// At is where a word is, for prefetches; nil, if there is a domain.
func (m *Memory) At(at uint64) unsafe.Pointer {
	if m.domain != nil {
		return nil
	}
	return unsafe.Pointer(&m.words[at])
}

// Fence lets a crash keep nothing that this thread stores from here on unless it
// keeps all that it has stored before.
//
// In a file that lives in the page cache, what the process has stored is there when
// the process is gone: the order of the stores is all that counts, and that is
// theirs already, since a store of this package is an atomic one, or lies between
// two of them. In memory that is persistent, it waits for what has been written back.
func (m *Memory) Fence() {
	switch {
	case m.domain != nil:
		m.domain.Fence()
	case m.persist != nil:
		m.persist.Fence()
	}
}

// Write writes bytes to the words from one on; the rest of the last word becomes
// zero.
func (m *Memory) Write(at uint64, b []byte) {
	whole := len(b) / Word
	if m.domain == nil {
		copy(device.Bytes(m.words[at:at+uint64(whole)]), b)
	} else {
		for i := range whole {
			m.domain.Store(at+uint64(i), binary.NativeEndian.Uint64(b[i*Word:]))
		}
	}
	if rest := b[whole*Word:]; len(rest) > 0 {
		var last [Word]byte
		copy(last[:], rest)
		m.store(at+uint64(whole), binary.NativeEndian.Uint64(last[:]))
	}
	m.writeBack(at, at+WordsOf(len(b)))
}

// Read reads the bytes that begin at a word.
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

// Equal reports whether the bytes that begin at a word are b.
func (m *Memory) Equal(at uint64, b []byte) bool {
	if m.domain == nil {
		return bytes.Equal(b, device.Bytes(m.words[at : at+WordsOf(len(b))])[:len(b)])
	}
	is := make([]byte, len(b))
	m.Read(at, is)
	return bytes.Equal(b, is)
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

// WordsOf is how many words so many bytes take.
func WordsOf(size int) uint64 { return uint64(size+Word-1) / Word }
