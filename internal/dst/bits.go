package dst

import mathbits "math/bits"

// bits are a set of small numbers.
type bits []uint64

func newBits(n int) bits      { return make(bits, (n+63)/64) }
func (b bits) has(i int) bool { return b[i/64]>>(i%64)&1 != 0 }
func (b bits) flip(i int)     { b[i/64] ^= 1 << (i % 64) }

func (b bits) len() (n int) {
	for _, w := range b {
		n += mathbits.OnesCount64(w)
	}
	return n
}

func (b bits) add(c bits) {
	for i := range b {
		b[i] |= c[i]
	}
}

func (b bits) remove(c bits) {
	for i := range b {
		b[i] &^= c[i]
	}
}

// within reports whether each number is in one of the sets.
func (b bits) within(sets ...bits) bool {
	for i, w := range b {
		for _, c := range sets {
			w &^= c[i]
		}
		if w != 0 {
			return false
		}
	}
	return true
}
