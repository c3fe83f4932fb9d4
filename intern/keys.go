package intern

import (
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/arena"
)

// blockBits is the logarithm of the number of words in a block: what a table of few keys
// takes at least, and how much is free at the end of a large one at most.
const blockBits = 10

// keys are the bytes of all keys, by their ids.
type keys struct {
	words  []*[1 << blockBits]uint64
	arena  arena.Arena
	writer arena.Writer
}

func newKeys() *keys {
	k := new(keys)
	k.writer = arena.NewWriter(&k.arena)
	return k
}

// put stores the bytes of a key. Long ones go to w.
func (k *keys) put(id uint32, item []byte, w *arena.Writer) {
	if len(item) <= arena.MaxShort {
		*k.word(id) = arena.Pack(item)
	} else {
		*k.word(id) = w.Put(item)
	}
}

// stored is how many bytes of the arena a key takes.
func stored(item []byte) int {
	if len(item) <= arena.MaxShort {
		return 0
	}
	return arena.Size(item)
}

// grow makes room for ids below n.
func (k *keys) grow(n int) {
	for len(k.words)<<blockBits < n {
		k.words = append(k.words, new([1 << blockBits]uint64))
	}
}

func (k *keys) word(id uint32) *uint64 {
	return &k.words[id>>blockBits][id&(1<<blockBits-1)]
}

// at is the bytes of a key. Those of a short one are in its word, whose memory is little-endian.
func (k *keys) at(id uint32) []byte {
	w := k.word(id)
	if *w&arena.Long != 0 {
		return k.arena.At(*w)
	}
	n := *w >> 56
	return unsafe.Slice((*byte)(unsafe.Pointer(w)), 8)[:n:n]
}

// bytes is how much memory the keys take up.
func (k *keys) bytes() int64 { return wordBytes(len(k.words)<<blockBits) + k.arena.Bytes() }

// growth is by how much that may grow with n more keys whose bytes take size in the arena.
func (k *keys) growth(have, n, size int) int64 {
	return max(wordBytes(have+n)-wordBytes(len(k.words)<<blockBits), 0) + k.writer.Growth(size)
}

// wordBytes is the size of the blocks of n words, and of what leads to them.
func wordBytes(n int) int64 {
	blocks := int64(n+1<<blockBits-1) >> blockBits
	return blocks * (8<<blockBits + 8)
}

// column copies keys to a column.
func (k *keys) column(lo, hi int, parallel func(n int, body func(lo, hi int))) column.Column {
	offsets := make([]int64, hi-lo+1)
	for i := range hi - lo {
		offsets[i+1] = offsets[i] + int64(len(k.at(uint32(lo+i))))
	}
	data := make([]byte, offsets[hi-lo])
	parallel(hi-lo, func(from, to int) {
		for i := from; i < to; i++ {
			copy(data[offsets[i]:], k.at(uint32(lo+i)))
		}
	})
	c, err := column.OfOffsets(offsets, data)
	if err != nil {
		panic(err) // offsets that were just added up
	}
	return c
}
