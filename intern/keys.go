package intern

import (
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/arena"
	"github.com/weftgo/weft/internal/hostmem"
)

// blockBits is the binary logarithm of the number of keys in a block. A table takes at least one
// block, and at most one block of a large table is unused.
const blockBits = 10

const blockKeys = 1 << blockBits

// keys holds the bytes of all keys by id. Keys of one width are in blocks, and others in words and
// an arena.
type keys struct {
	width  int // width of all keys; 0: words
	blocks [][]byte
	words  []*[blockKeys]uint64
	arena  arena.Arena // its pool also allocates the blocks
	writer arena.Writer
}

func newKeys(width int, pool *hostmem.Pool) *keys {
	k := &keys{width: width}
	k.arena.Pool = pool
	k.writer = arena.NewWriter(&k.arena)
	return k
}

// put stores the bytes of a key. Long keys go to w.
func (k *keys) put(id uint32, item []byte, w *arena.Writer) {
	switch {
	case k.width > 0:
		copy(k.fixedKey(id), item)
	case len(item) <= arena.MaxShort:
		*k.word(id) = arena.Pack(item)
	default:
		*k.word(id) = w.Put(item)
	}
}

// putNull stores null as an empty key, or as zeros if keys have one width.
func (k *keys) putNull(id uint32) {
	if k.width > 0 {
		clear(k.fixedKey(id))
	} else {
		*k.word(id) = 0
	}
}

// arenaBytes returns the bytes that a key takes in the arena.
func (k *keys) arenaBytes(item []byte) int {
	if k.width > 0 || len(item) <= arena.MaxShort {
		return 0
	}
	return arena.Size(item)
}

// slabBytes is the size of a slab, from which blocks or bytes of many keys are allocated. It has a
// few huge pages.
const slabBytes = 8 << 20

// reserve allocates the memory in the arena for each region.
func (k *keys) reserve(regions []region) {
	for len(regions) > 0 {
		n, sum := 1, regions[0].size
		for n < len(regions) && sum+regions[n].size <= slabBytes {
			sum += regions[n].size
			n++
		}
		slab := k.writer.Reserve(sum)
		for i := range regions[:n] {
			regions[i].to = slab.Split(regions[i].size)
		}
		regions = regions[n:]
	}
}

// grow allocates memory for ids below n.
func (k *keys) grow(n int) {
	blocks := (n+blockKeys-1)>>blockBits - len(k.words) - len(k.blocks)
	for blocks > 0 {
		batch := min(blocks, max(1, slabBytes>>blockBits/max(k.width, 8)))
		if blocks -= batch; k.width > 0 {
			slab, size := k.arena.Pool.Make(batch*k.width<<blockBits), k.width<<blockBits
			for i := range batch {
				k.blocks = append(k.blocks, slab[i*size:(i+1)*size:(i+1)*size])
			}
			continue
		}
		slab := hostmem.Slice[uint64](k.arena.Pool, batch<<blockBits)
		for i := range batch {
			k.words = append(k.words, (*[blockKeys]uint64)(slab[i<<blockBits:]))
		}
	}
}

func (k *keys) word(id uint32) *uint64 { return &k.words[id>>blockBits][id&(blockKeys-1)] }

func (k *keys) fixedKey(id uint32) []byte {
	at := int(id&(blockKeys-1)) * k.width
	return k.blocks[id>>blockBits][at : at+k.width : at+k.width]
}

// at returns the bytes of a key. The bytes of a short key are in its word, in little-endian memory.
func (k *keys) at(id uint32) []byte {
	if k.width > 0 {
		return k.fixedKey(id)
	}
	w := k.word(id)
	if *w&arena.Long != 0 {
		return k.arena.At(*w)
	}
	n := *w >> 56
	return unsafe.Slice((*byte)(unsafe.Pointer(w)), 8)[:n:n]
}

func (k *keys) bytes() int64 {
	return k.blockBytes((len(k.words)+len(k.blocks))<<blockBits) + k.arena.Bytes()
}

// growth returns by how much k.bytes() grows if n keys, with size bytes in the arena, are added to
// nKeys keys.
func (k *keys) growth(nKeys, n, size int) int64 {
	return k.blockBytes(nKeys+n) - k.blockBytes(nKeys) + k.writer.MaxGrowth(size)
}

// blockBytes returns the memory of the blocks of n keys, and of the slices that refer to them.
func (k *keys) blockBytes(n int) int64 {
	blocks := int64(n+blockKeys-1) >> blockBits
	if k.width > 0 {
		return blocks * int64(k.width<<blockBits+int(unsafe.Sizeof([]byte{})))
	}
	return blocks * (8<<blockBits + 8)
}

// toVariableWidth returns the same n keys in a layout for keys of any length.
func (k *keys) toVariableWidth(n int) *keys {
	g := newKeys(0, k.arena.Pool)
	g.grow(n)
	for id := range uint32(n) {
		g.put(id, k.fixedKey(id), &g.writer)
		if at := id >> blockBits; id&(blockKeys-1) == blockKeys-1 {
			k.blocks[at] = nil // so that both layouts are never in memory as a whole
		}
	}
	return g
}

// column copies the keys with ids lo to hi-1 to a column.
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
	return must(column.OfOffsets(offsets, data))
}
