package column

import (
	"fmt"
	"math/bits"
)

// Bitmap has a bit for each value of a column, in Arrow's order: bit i is bit i%8 of byte i/8,
// where bit 0 is the lowest. The zero value has no bits.
type Bitmap struct {
	bits   []byte
	offset int // index of the first bit
	n      int
}

// OfBits returns a bitmap over n bits, from bit number offset on. OfBits panics if bits is too
// short.
func OfBits(bits []byte, offset, n int) Bitmap {
	if offset < 0 || n < 0 || n > 8*len(bits)-offset {
		panic(fmt.Sprintf("column: %d bits from %d on in %d bytes", n, offset, len(bits)))
	}
	return Bitmap{bits: bits, offset: offset, n: n}
}

// OfBools returns a bitmap with its own memory.
func OfBools(values []bool) Bitmap {
	b := Bitmap{bits: make([]byte, (len(values)+7)/8), n: len(values)}
	for i, v := range values {
		if v {
			b.bits[i/8] |= 1 << (i % 8)
		}
	}
	return b
}

// Len returns the number of bits.
func (b Bitmap) Len() int { return b.n }

// At reports whether bit i is set.
func (b Bitmap) At(i int) bool {
	i += b.offset
	return b.bits[i>>3]>>(i&7)&1 != 0
}

// Count returns the number of set bits.
func (b Bitmap) Count() int {
	n, i := 0, 0
	for ; i < b.n && (b.offset+i)%8 != 0; i++ {
		if b.At(i) {
			n++
		}
	}
	for ; i+8 <= b.n; i += 8 {
		n += bits.OnesCount8(b.bits[(b.offset+i)/8])
	}
	for ; i < b.n; i++ {
		if b.At(i) {
			n++
		}
	}
	return n
}

// Raw returns the memory of the bitmap and the index of its first bit.
func (b Bitmap) Raw() (bits []byte, offset int) { return b.bits, b.offset }

// Slice returns the bits lo to hi-1, in the same memory.
func (b Bitmap) Slice(lo, hi int) Bitmap {
	if lo < 0 || lo > hi || hi > b.n {
		panic(fmt.Sprintf("column: bits %d to %d of %d", lo, hi, b.n))
	}
	return Bitmap{bits: b.bits, offset: b.offset + lo, n: hi - lo}
}
