package sorted

import "math/bits"

// searched is how many keys are searched side by side: their memory is on its way at once.
const searched = 16

// search finds the places of keys in sorted ones: how many are smaller than each. All halve
// what is left in step, without a branch on what they find.
func search[K uint32 | uint64](in, keys []K, flip K, at *places) {
	if len(in) == 0 {
		*at = places{}
		return
	}
	var key [searched]K
	for i, k := range keys {
		key[i], at[i] = k^flip, 0
	}
	n := len(keys)
	for left := len(in); left > 1; {
		half := left / 2
		for i := range n {
			_, less := bits.Sub64(uint64(in[at[i]+half-1]), uint64(key[i]), 0)
			at[i] += half & -int(less)
		}
		left -= half
	}
	for i := range n {
		if in[at[i]] < key[i] {
			at[i]++
		}
	}
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
