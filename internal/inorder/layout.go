package inorder

import (
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Layout computes the offsets of arrays in a block of memory: the ascending keys, their values, and
// the index of the keys. The layout is the same on every device; sorted/array.cuh computes it in
// kernels. Offsets depend on room, the number of pairs that fit in the memory. Array lengths depend
// on the number of pairs that the memory holds.
type Layout struct{ Key, Val int } // sizes in bytes of a key and of a value

const align = 256

// TallyBytes is the size of the counters (core.Tally) after the arrays.
const TallyBytes = 32

// Aligned rounds the size of an array up to the offset where the next array may begin.
func Aligned(bytes int) int { return (bytes + align - 1) &^ (align - 1) }

// ValsAt returns the offset of the values in memory that fits room pairs. The offset of the keys is
// 0.
func (l Layout) ValsAt(room int) int { return Aligned(room * l.Key) }

// IndexAt returns the offset of a level of the index in memory that fits room pairs. For level
// MostLevels it returns the end of the index.
func (l Layout) IndexAt(room, level int) int {
	at := l.ValsAt(room) + Aligned(room*l.Val)
	for range level {
		room >>= FanBits
		at += Aligned(room * l.Key)
	}
	return at
}

// Pairs returns the first n keys and values in memory that fits room pairs. K and V must have the
// sizes in l.
func Pairs[K, V uint32 | uint64](l Layout, mem []byte, room, n int) (keys Keys[K], vals []V) {
	if n == 0 {
		return Keys[K]{}, nil
	}
	base := unsafe.Pointer(unsafe.SliceData(mem))
	keys.Keys, vals = unsafe.Slice((*K)(base), n), unsafe.Slice((*V)(unsafe.Add(base, l.ValsAt(room))), n)
	for level, size := 0, n>>FanBits; size > 0; level, size = level+1, size>>FanBits {
		keys.Index = append(keys.Index, unsafe.Slice((*K)(unsafe.Add(base, l.IndexAt(room, level))), size))
	}
	return keys, vals
}

// Check verifies the first n keys in memory that fits room pairs. The keys must ascend, and each
// level of the index must hold the last keys of the nodes below it. Otherwise Check returns
// op.ErrCorrupt.
func Check[K uint32 | uint64](l Layout, mem []byte, room, n int) error {
	keys := batch.View[K](mem[:n*l.Key])
	for i := 1; i < n; i++ {
		if keys[i-1] >= keys[i] {
			return fmt.Errorf("%w: key %#x is number %d, but the next one is %#x", op.ErrCorrupt,
				keys[i-1], i-1, keys[i])
		}
	}
	below := keys
	for i := 0; len(below) >= Fan; i++ {
		at := l.IndexAt(room, i)
		level := batch.View[K](mem[at : at+len(below)/Fan*l.Key])
		for j, k := range level {
			if last := below[j*Fan+Fan-1]; k != last {
				return fmt.Errorf("%w: key %#x is number %d of level %d of the index, want %#x",
					op.ErrCorrupt, k, j, i, last)
			}
		}
		below = level
	}
	return nil
}
