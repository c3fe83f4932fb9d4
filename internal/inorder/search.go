package inorder

import (
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/cpu"
)

// Fan is the number of keys in a node. A node is a group of consecutive keys in a level; the next
// level holds the last key of each node. FanBits is log2 of Fan.
const (
	FanBits = 4
	Fan     = 1 << FanBits
)

// MostLevels is the maximum number of levels in an index. It suffices for fewer than 1<<36 keys.
const MostLevels = 8

// Keys holds unsigned numbers in ascending order, and their index. The first level of the index is
// built from the keys, and each further level from the one below. Key i of a level is key 16*i+15
// of the level below. The last level has fewer than 16 keys.
type Keys[K uint32 | uint64] struct {
	Keys  []K
	Index [][]K // levels, the lowest first
}

// Fill computes the index from the keys.
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

// Searched is the maximum number of keys per search. A core searches for them at once, so that it
// loads their nodes in parallel.
const Searched = 16

// Places holds the result of a search for several keys. For each key, it is the index of the first
// key of the searched array that is not smaller.
type Places [Searched]int

// Search stores in at, for each of up to Searched keys, the number of smaller keys in a. It
// compares keys after exclusive or with flip. The searches descend together, one node per level,
// and prefetch the nodes of the next level.
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

// cached is the maximum number of keys in a level that needs no prefetching, since it lies in a
// core's cache.
const cached = 1 << 13

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

// node returns the number of keys in the level that are smaller than key. at is the index of the
// node that contains the boundary: all keys before the node are smaller, and all keys after it are
// not. The last node may be incomplete; then the level above has no key for it. In a complete node
// the last key need not be compared, so a binary search makes four comparisons, without a branch on
// their results.
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

func smaller[K uint32 | uint64](a, b K) int {
	_, less := bits.Sub64(uint64(a), uint64(b), 0)
	return int(less)
}

// Gallop returns the index of the first key in the sorted slice in that is not smaller than key.
// The index is not less than from, where Gallop begins. It searches in steps that double, followed
// by a binary search.
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
