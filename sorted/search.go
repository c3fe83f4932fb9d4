package sorted

import (
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/internal/cpu"
)

// searched is how many keys are searched side by side: their memory is on its way at once.
const searched = 16

// search finds the places of keys: how many are smaller than each. All go down the index in
// step, a node at a time, while the nodes that they look at next are on their way.
func (a *array[K, V]) search(keys []K, flip K, at *places) {
	var key [searched]K
	for i, k := range keys {
		key[i], at[i] = k^flip, 0
	}
	n := min(len(keys), searched)
	for level := len(a.index) - 1; level >= 0; level-- {
		descend(a.index[level], key[:n], at)
	}
	descend(a.keys, key[:n], at)
}

// cached is the number of keys of a level that lie in a core's cache.
const cached = 1 << 13

// descend goes down one level of keys.
func descend[K uint32 | uint64](level, keys []K, at *places) {
	if len(level) > cached {
		var nodes [searched]unsafe.Pointer
		base := unsafe.Pointer(unsafe.SliceData(level))
		for i := range keys {
			nodes[i] = unsafe.Add(base, at[i]<<fanBits*int(unsafe.Sizeof(keys[0])))
		}
		cpu.PrefetchPairs(nodes[:len(keys)])
	}
	for i, k := range keys {
		at[i] = node(level, at[i], k)
	}
}

// node is how many keys of a level are smaller than a key, of which those are that come
// before node number at, and those behind it are not. A node that has no key in the level above
// is the last one, and not full; so 15 comparisons tell, of which it takes four, without a
// branch on what they find.
func node[K uint32 | uint64](level []K, at int, key K) int {
	at <<= fanBits
	if at+fan > len(level) {
		for at < len(level) && level[at] < key {
			at++
		}
		return at
	}
	of := (*[fan]K)(level[at:])
	n := smaller(of[7], key) * 8
	n += smaller(of[(n+3)&(fan-1)], key) * 4
	n += smaller(of[(n+1)&(fan-1)], key) * 2
	n += smaller(of[n&(fan-1)], key)
	return at + n
}

// smaller is 1 if a is smaller than b, else 0.
func smaller[K uint32 | uint64](a, b K) int {
	_, less := bits.Sub64(uint64(a), uint64(b), 0)
	return int(less)
}

// gallop finds the place of a key in sorted ones, from a place on that it is not before: in
// steps that double.
func gallop[K uint32 | uint64](in []K, from int, key K) int {
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
