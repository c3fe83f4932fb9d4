package sim

import "testing"

// Exactly the marked bytes count as written until they are unmarked, at any first and last byte.
func TestMark(t *testing.T) {
	const size = 40
	for lo := range size {
		for hi := lo; hi <= size; hi++ {
			s := newSegment("bytes", heapBase, size)
			for _, written := range []bool{true, false} {
				s.mark(0, size, !written)
				s.mark(lo, hi-lo, written)
				for i := range size {
					if inside := lo <= i && i < hi; s.isWritten(uint64(i), 1) != (inside == written) {
						t.Fatalf("[%d,%d) marked %v: byte %d is known: %v", lo, hi, written, i, !(inside == written))
					}
				}
			}
		}
	}
}
