package dst

import "math/bits"

// A set holds small numbers.
type set []uint64

func newSet(n int) set       { return make(set, (n+63)/64) }
func (s set) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }
func (s set) flip(i int)     { s[i/64] ^= 1 << (i % 64) }

func (s set) len() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

func (s set) add(c set) {
	for i := range s {
		s[i] |= c[i]
	}
}

func (s set) remove(c set) {
	for i := range s {
		s[i] &^= c[i]
	}
}

// within reports whether each number is in at least one of the sets.
func (s set) within(sets ...set) bool {
	for i, w := range s {
		for _, c := range sets {
			w &^= c[i]
		}
		if w != 0 {
			return false
		}
	}
	return true
}

// closed returns the transitive closure of a relation among n things.
func closed(n int, before func(i, j int) bool) func(i, j int) bool {
	behind := make([]set, n) // per thing, its successors
	for i := range behind {
		behind[i] = newSet(n)
		for j := range n {
			if before(i, j) {
				behind[i].flip(j)
			}
		}
	}
	for k := range behind {
		for i := range behind {
			if behind[i].has(k) {
				behind[i].add(behind[k])
			}
		}
	}
	return func(i, j int) bool { return behind[i].has(j) }
}
