package ordered

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
)

const (
	lineBytes = core.LineBytes

	// leafPairs is the number of pairs that a leaf has room for: 32-bit keys of it
	// are one line, 64-bit ones two.
	leafPairs = 32

	// fanout is the number of separators in a node of the index.
	fanout = 16

	// fewPairs is the number of pairs below which a leaf is united with a neighbor,
	// if both together have no more than manyPairs.
	fewPairs  = leafPairs / 4
	manyPairs = leafPairs * 7 / 8

	// firstBlock is the number of leaves of the first block.
	firstBlock = 64
	maxBlocks  = 25
	maxLeaves  = firstBlock << (maxBlocks - 1)
)

// leaf is a run of pairs in the order of their keys, the keys as unsigned integers
// of the same order. Behind the last pair the key is repeated, so that a search
// need not know how many there are.
type leaf[K, V word] struct {
	keys [leafPairs]K
	vals [leafPairs]V
}

// bound is the first key that is not smaller than a key; the last one, if all are.
func (l *leaf[K, V]) bound(key K) int {
	i := below(l.keys[15], key) << 4
	i += below(l.keys[i|7], key) << 3
	i += below(l.keys[i|3], key) << 2
	i += below(l.keys[i|1], key) << 1
	return i + below(l.keys[i], key)
}

// below is 1 or 0 without a branch, which would be guessed wrong half of the time.
func below[K word](a, b K) int {
	n := 0
	if a < b {
		n = 1
	}
	return n
}

// lower is how many of the n keys of the leaf are smaller than a key.
func (l *leaf[K, V]) lower(key K, n int) int {
	if i := l.bound(key); l.keys[i&31] >= key {
		return i
	}
	return n
}

// upper is how many of the n keys of the leaf are not larger than a key.
func (l *leaf[K, V]) upper(key K, n int) int {
	i := l.lower(key, n)
	if i < n && l.keys[i] == key {
		i++
	}
	return i
}

// set makes the leaf one of these pairs, of which there is one at least.
func (l *leaf[K, V]) set(keys []K, vals []V) {
	n := copy(l.keys[:], keys)
	copy(l.vals[:], vals)
	for last := keys[n-1]; n < leafPairs; n++ {
		l.keys[n] = last
	}
}

// pool is the memory of leaves: blocks, each as large as all before it, so that it
// grows without moving a leaf. Leaves are known by their numbers.
type pool[K, V word] struct {
	dev    device.Device
	blocks []device.Buffer
	bases  [maxBlocks]unsafe.Pointer // where leaf 0 would be, if the block went down to it
	born   []uint64                  // when a leaf was written first, by the clock of the versions
	used   uint32                    // leaves that have been given out so far
	free   []uint32                  // those of them that have been given back
}

// blockOf is the block of leaves that has a leaf: the first has firstBlock, each other as
// many as all before it.
func blockOf(id uint32) int { return bits.Len32(id / firstBlock) }

// at is a leaf.
func (p *pool[K, V]) at(id uint32) *leaf[K, V] {
	return (*leaf[K, V])(unsafe.Add(p.bases[blockOf(id)], uintptr(id)*unsafe.Sizeof(leaf[K, V]{})))
}

// room is the number of leaves that there is memory for.
func (p *pool[K, V]) room() int {
	if len(p.blocks) == 0 {
		return 0
	}
	return firstBlock << (len(p.blocks) - 1)
}

// take gives out n leaves, or none after an error.
func (p *pool[K, V]) take(n int) ([]uint32, error) {
	recycled := min(n, len(p.free))
	for n-recycled > p.room()-int(p.used) {
		if err := p.grow(); err != nil {
			return nil, err
		}
	}
	ids := make([]uint32, 0, n)
	left := len(p.free) - recycled
	ids = append(ids, p.free[left:]...)
	p.free = p.free[:left]
	for len(ids) < n {
		ids = append(ids, p.used)
		p.used++
	}
	return ids, nil
}

// give gives leaves back.
func (p *pool[K, V]) give(ids ...uint32) { p.free = append(p.free, ids...) }

// grow adds a block.
func (p *pool[K, V]) grow() error {
	b, before := len(p.blocks), p.room()
	if b == maxBlocks {
		return fmt.Errorf("%w: no more than %d leaves have numbers", device.ErrMemory, maxLeaves)
	}
	n, size := max(before, firstBlock), int(unsafe.Sizeof(leaf[K, V]{}))
	mem, err := p.dev.Alloc(n * size)
	if err != nil {
		return fmt.Errorf("%d leaves of %d bytes: %w", n, size, err)
	}
	p.blocks = append(p.blocks, mem)
	p.bases[b] = unsafe.Add(unsafe.Pointer(unsafe.SliceData(mem.Host)), -before*size)
	p.born = append(p.born, make([]uint64, n)...)
	return nil
}

// reset gives all leaves back.
func (p *pool[K, V]) reset() { p.used, p.free = 0, p.free[:0] }

// Free is for [core.Parts].
func (p *pool[K, V]) Free() (err error) {
	for _, b := range p.blocks {
		err = errors.Join(err, p.dev.Free(b))
	}
	p.blocks = nil
	return err
}
