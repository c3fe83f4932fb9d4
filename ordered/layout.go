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

	// leafPairs is the number of slots of a leaf. 32-bit keys fill one cache line, 64-bit keys two.
	leafPairs = 32

	// fanout is the number of separators in a node of the index.
	fanout = 16

	// minPairs is the number of pairs below which a leaf is merged with a neighbor, if both
	// together have at most maxMergedPairs pairs.
	minPairs       = leafPairs / 4
	maxMergedPairs = leafPairs * 7 / 8

	// firstBlock is the number of leaves of the first block.
	firstBlock = 64
	maxBlocks  = 25
	maxLeaves  = firstBlock << (maxBlocks - 1)
)

// leaf is a run of pairs in key order. Keys are stored as unsigned integers of the same order. The
// slots after the last pair repeat its key, so a search does not need the number of pairs.
type leaf[K, V word] struct {
	keys [leafPairs]K
	vals [leafPairs]V
}

// bound returns the index of the first key that is not smaller than key. If all keys are smaller,
// it returns the last index.
func (l *leaf[K, V]) bound(key K) int {
	i := less(l.keys[15], key) << 4
	i += less(l.keys[i|7], key) << 3
	i += less(l.keys[i|3], key) << 2
	i += less(l.keys[i|1], key) << 1
	return i + less(l.keys[i], key)
}

// less returns 1 if a < b and 0 otherwise, without a branch, which would be mispredicted half of
// the time.
func less[K word](a, b K) int {
	n := 0
	if a < b {
		n = 1
	}
	return n
}

// lower returns how many of the first n keys are smaller than key. The leaf has n pairs.
func (l *leaf[K, V]) lower(key K, n int) int {
	if i := l.bound(key); l.keys[i&31] >= key {
		return i
	}
	return n
}

// upper returns how many of the first n keys are at most key. The leaf has n pairs.
func (l *leaf[K, V]) upper(key K, n int) int {
	i := l.lower(key, n)
	if i < n && l.keys[i] == key {
		i++
	}
	return i
}

// set sets the pairs of the leaf. At least one pair is required.
func (l *leaf[K, V]) set(keys []K, vals []V) {
	n := copy(l.keys[:], keys)
	copy(l.vals[:], vals)
	for last := keys[n-1]; n < leafPairs; n++ {
		l.keys[n] = last
	}
}

// pool is the memory of leaves. It consists of blocks, each as large as all blocks before it, so it
// grows without moving a leaf. A leaf is referenced by its number.
type pool[K, V word] struct {
	dev    device.Device
	blocks []device.Buffer
	bases  [maxBlocks]unsafe.Pointer // by block: address of leaf 0 if the block extended down to it
	// by leaf: time of its first write, by the clock of forest
	created []uint64
	used    uint32   // leaves allocated so far
	free    []uint32 // allocated leaves that have been returned
}

// blockOf returns the block of a leaf. The first block has firstBlock leaves. Each other block has
// as many leaves as all blocks before it.
func blockOf(id uint32) int { return bits.Len32(id / firstBlock) }

func (p *pool[K, V]) at(id uint32) *leaf[K, V] {
	return (*leaf[K, V])(unsafe.Add(p.bases[blockOf(id)], uintptr(id)*unsafe.Sizeof(leaf[K, V]{})))
}

// capacity returns the number of leaves for which memory is allocated.
func (p *pool[K, V]) capacity() int {
	if len(p.blocks) == 0 {
		return 0
	}
	return firstBlock << (len(p.blocks) - 1)
}

// allocLeaves allocates n leaves. After an error it has allocated none.
func (p *pool[K, V]) allocLeaves(n int) ([]uint32, error) {
	nReused := min(n, len(p.free))
	for n-nReused > p.capacity()-int(p.used) {
		if err := p.grow(); err != nil {
			return nil, err
		}
	}
	ids := make([]uint32, 0, n)
	left := len(p.free) - nReused
	ids = append(ids, p.free[left:]...)
	p.free = p.free[:left]
	for len(ids) < n {
		ids = append(ids, p.used)
		p.used++
	}
	return ids, nil
}

func (p *pool[K, V]) freeLeaves(ids ...uint32) { p.free = append(p.free, ids...) }

func (p *pool[K, V]) grow() error {
	b, before := len(p.blocks), p.capacity()
	if b == maxBlocks {
		return fmt.Errorf("%w: at most %d leaves can be numbered", device.ErrMemory, maxLeaves)
	}
	n, size := max(before, firstBlock), int(unsafe.Sizeof(leaf[K, V]{}))
	mem, err := p.dev.Alloc(n * size)
	if err != nil {
		return fmt.Errorf("%d leaves of %d bytes: %w", n, size, err)
	}
	p.blocks = append(p.blocks, mem)
	p.bases[b] = unsafe.Add(unsafe.Pointer(unsafe.SliceData(mem.Host)), -before*size)
	p.created = append(p.created, make([]uint64, n)...)
	return nil
}

// reset frees all leaves.
func (p *pool[K, V]) reset() { p.used, p.free = 0, p.free[:0] }

// Free implements core.Parts.
func (p *pool[K, V]) Free() (err error) {
	for _, b := range p.blocks {
		err = errors.Join(err, p.dev.Free(b))
	}
	p.blocks = nil
	return err
}
