package touched

import (
	"math/bits"
	"slices"
)

// Ends returns the two vertices of each edge for which done is true, or of all edges if done is
// empty. The result ascends without duplicates. It leaves out ends that are not less than the
// parameter vertices. All columns must have the same length.
func Ends(from, to []uint32, done []bool, vertices uint64) []uint32 {
	n, largest := 0, uint32(0)
	each(from, to, done, vertices, func(v uint32) {
		n++
		largest = max(largest, v)
	})
	if n == 0 {
		return []uint32{}
	}
	if words := int(largest/64) + 1; words <= n {
		return marked(from, to, done, vertices, words)
	}
	ends := make([]uint32, 0, n)
	each(from, to, done, vertices, func(v uint32) { ends = append(ends, v) })
	slices.Sort(ends)
	return slices.Compact(ends)
}

// marked returns the result of Ends. It marks one bit per vertex, in the given number of 64-bit
// words.
func marked(from, to []uint32, done []bool, vertices uint64, words int) []uint32 {
	set := make([]uint64, words)
	each(from, to, done, vertices, func(v uint32) { set[v/64] |= 1 << (v % 64) })
	n := 0
	for _, w := range set {
		n += bits.OnesCount64(w)
	}
	ends := make([]uint32, 0, n)
	for i, w := range set {
		for ; w != 0; w &= w - 1 {
			ends = append(ends, uint32(64*i+bits.TrailingZeros64(w)))
		}
	}
	return ends
}

// each calls f for both ends of each edge that done selects. It leaves out ends that are not less
// than the parameter vertices.
func each(from, to []uint32, done []bool, vertices uint64, f func(v uint32)) {
	for i, u := range from {
		if len(done) > 0 && !done[i] {
			continue
		}
		for _, v := range [2]uint32{u, to[i]} {
			if uint64(v) < vertices {
				f(v)
			}
		}
	}
}
