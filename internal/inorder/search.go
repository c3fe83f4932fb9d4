package inorder

import (
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/cpu"
)

// Fan is the number of keys of a level that one of the next level stands for, the last of
// them: a node. FanBits are its bits.
const (
	FanBits = 4
	Fan     = 1 << FanBits
)

// MostLevels is the number of levels of an index, at most: of 1<<36 keys.
const MostLevels = 8

// Keys are unsigned numbers in ascending order, and an index of them: levels, number i of each
// being number 16*i+15 of the one below, the first of which is the keys; up to a level of
// fewer than 16.
type Keys[K uint32 | uint64] struct {
	Keys  []K
	Index [][]K // from the lowest
}

// Fill fills the index.
func (a *Keys[K]) Fill(dev device.Host) {
	below := a.Keys
	for _, level := range a.Index {
		dev.Parallel(len(level), 1<<14, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				level[i] = below[i<<FanBits|(Fan-1)]
			}
		})
		below = level
	}
}

// Searched is how many keys are searched side by side: their memory is on its way at once.
const Searched = 16

// Places are numbers of keys: of the first that is not smaller than another key.
type Places [Searched]int

// Search finds the places of keys: how many are smaller than each, of which exclusive or with
// flip makes unsigned numbers. All go down the index in step, a node at a time, while the nodes
// that they look at next are on their way.
func (a *Keys[K]) Search(keys []K, flip K, at *Places) {
	var key [Searched]K
	for i, k := range keys {
		key[i], at[i] = k^flip, 0
	}
	n := min(len(keys), Searched)
	for level := len(a.Index) - 1; level >= 0; level-- {
		descend(a.Index[level], key[:n], at)
	}
	descend(a.Keys, key[:n], at)
}

// cached is the number of keys of a level that lie in a core's cache.
const cached = 1 << 13

// descend goes down one level of keys.
func descend[K uint32 | uint64](level, keys []K, at *Places) {
	if len(level) > cached {
		var nodes [Searched]unsafe.Pointer
		base := unsafe.Pointer(unsafe.SliceData(level))
		for i := range keys {
			nodes[i] = unsafe.Add(base, at[i]<<FanBits*int(unsafe.Sizeof(keys[0])))
		}
		cpu.PrefetchPairs(nodes[:len(keys)])
	}
	for i, k := range keys {
		at[i] = node(level, at[i], k)
	}
}

// node returns the number of keys of a level that are smaller than key. All keys before node number
// at are smaller, and all keys after that node are not. A node without a key in the level above is
// the last one, and not full. So 15 comparisons decide, and a search makes four of them, without a
// branch on their results.
func node[K uint32 | uint64](level []K, at int, key K) int {
	at <<= FanBits
	if at+Fan > len(level) {
		for at < len(level) && level[at] < key {
			at++
		}
		return at
	}
	of := (*[Fan]K)(level[at:])
	n := smaller(of[7], key) * 8
	n += smaller(of[(n+3)&(Fan-1)], key) * 4
	n += smaller(of[(n+1)&(Fan-1)], key) * 2
	n += smaller(of[n&(Fan-1)], key)
	return at + n
}

// smaller is 1 if a is smaller than b, else 0.
func smaller[K uint32 | uint64](a, b K) int {
	_, less := bits.Sub64(uint64(a), uint64(b), 0)
	return int(less)
}

// Gallop finds the place of a key in sorted ones, from a place on that it is not before: in
// steps that double.
func Gallop[K uint32 | uint64](in []K, from int, key K) int {
	step := 1
	for from+step <= len(in) && in[from+step-1] < key {
		from += step
		step *= 2
	}
	end := min(from+step-1, len(in))
	for from < end {
		mid := int(uint(from+end) / 2)
		if in[mid] < key {
			from = mid + 1
		} else {
			end = mid
		}
	}
	return from
}
