package dst

import "math/bits"

// set is a set of small numbers, stored as bits.
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

// coveredBy reports whether the union of sets contains all numbers in s.
func (s set) coveredBy(sets ...set) bool {
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

// transitiveClosure returns the transitive closure of a relation between the numbers 0 to n-1.
func transitiveClosure(n int, before func(i, j int) bool) func(i, j int) bool {
	successors := make([]set, n) // successors of each number
	for i := range successors {
		successors[i] = newSet(n)
		for j := range n {
			if before(i, j) {
				successors[i].flip(j)
			}
		}
	}
	for k := range successors {
		for i := range successors {
			if successors[i].has(k) {
				successors[i].add(successors[k])
			}
		}
	}
	return func(i, j int) bool { return successors[i].has(j) }
}
