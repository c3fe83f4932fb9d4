package column

import (
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/hash"
)

// Hash writes a 64-bit hash of each row of the key columns to hashes. It panics if the columns and
// hashes differ in length.
//
// The hash is stable: it is the same in each process, on each machine and device, and in each
// version of weft. Arithmetic is modulo 2^64, and shifts are unsigned. The hash of a row is h:
//
//	k = mix(seed + 0x9e3779b97f4a7c15)
//	h = k
//	for each key column, in order:
//		h = mix(h ^ word)
//
//	mix(x):
//		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
//		x = (x ^ x>>27) * 0x94d049bb133111eb
//		return x ^ x>>31
//
// The word of a value depends on its kind:
//
//	integer      its two's complement, extended to 64 bits by the sign, or by zeros if unsigned
//	float        the bits of the same number as IEEE 754 binary64; those of 0 for -0;
//	             0x7ff8000000000000 for every NaN
//	bool         1 or 0
//	byte string  XXH64 of the bytes with seed k
//	null         0xd1b54a32d192ed03
//
// The word thus depends on the value, and not on the width of the type or the layout of the column.
// Integers 5 of all widths have the same hash. Equal float32 and float64 also have the same hash,
// and so have equal byte strings in all layouts and dictionaries. An integer other than 0 and the
// equal float have different words. The order of columns matters. In a single column of fixed size,
// different words have different hashes.
//
// The hash has nothing in common with the hash of weft's tables, so rows with similar hashes spread
// evenly in a table. Different seeds give independent hashes. The seed 0 is good unless an
// adversary chooses keys: if the seed is known, one can find colliding keys.
func Hash(dev device.Host, keys []Column, seed uint64, hashes []uint64) {
	for i, c := range keys {
		if c.n != len(hashes) {
			panic(fmt.Sprintf("column: key column %d has %d rows, but there are %d hashes",
				i, c.n, len(hashes)))
		}
	}
	h := newHasher(dev, keys, seed)
	dev.Parallel(len(hashes), hashGrain, func(lo, hi int) {
		words := new([hashBlock]uint64)
		for ; lo < hi; lo += hashBlock {
			h.block(lo, hashes[lo:min(lo+hashBlock, hi)], words)
		}
	})
}

// hashBlock is the number of rows hashed at a time, a multiple of 64. Their hashes and words stay
// in the first-level cache. hashGrain is the number of rows that a core takes at a time.
const (
	hashBlock = 1 << 10
	hashGrain = 1 << 14
)

// hasher hashes rows of key columns.
type hasher struct {
	keys  []Column
	start uint64
	dicts [][]uint64 // by column: the words of the dictionary, or nil
}

// newHasher returns a hasher. It hashes each dictionary once, unless the dictionary has more values
// than the column has rows.
func newHasher(dev device.Host, keys []Column, seed uint64) *hasher {
	h := &hasher{keys: keys, start: hash.RowStart(seed), dicts: make([][]uint64, len(keys))}
	for i, c := range keys {
		if c.dict == nil || c.dict.n > c.n {
			continue
		}
		words, dict := make([]uint64, c.dict.n), *c.dict
		dev.Parallel(len(words), hashGrain, func(lo, hi int) {
			bytesWords(dict, lo, words[lo:hi], h.start)
		})
		h.dicts[i] = words
	}
	return h
}

// block hashes the rows from lo on, at most hashBlock.
func (h *hasher) block(lo int, hashes []uint64, words *[hashBlock]uint64) {
	if len(h.keys) == 0 {
		for i := range hashes {
			hashes[i] = h.start
		}
		return
	}
	for i, c := range h.keys {
		w := h.words(i, lo, words[:len(hashes)])
		if c.HasNulls() {
			w = withNullWords(c.valid, lo, w, words)
		}
		w = w[:len(hashes)]
		if i == 0 {
			for j, x := range w {
				hashes[j] = hash.Mix(h.start ^ x)
			}
			continue
		}
		for j, x := range w {
			hashes[j] = hash.Mix(hashes[j] ^ x)
		}
	}
}

// withNullWords returns the words of the rows from lo on, with the words of nulls replaced. It
// writes the result to memory, because words may be the memory of the column.
func withNullWords(valid Bitmap, lo int, words []uint64, memory *[hashBlock]uint64) []uint64 {
	out := memory[:len(words)]
	if unsafe.SliceData(words) != unsafe.SliceData(out) {
		copy(out, words)
	}
	for at := 0; at < len(out); at += 64 {
		for z := valid.zeros(lo+at, min(64, len(out)-at)); z != 0; z &= z - 1 {
			out[at+bits.TrailingZeros64(z)] = hash.NullWord
		}
	}
	return out
}

// zeros returns a mask of the zeros among the n bits from bit i on. Bit j of the mask belongs to
// bit i+j, and n is at most 64.
func (b Bitmap) zeros(i, n int) uint64 {
	i += b.offset
	raw, shift := b.bits[i/8:], uint(i%8)
	var word uint64
	if len(raw) >= 8 {
		word = le64(raw) >> shift
	} else {
		for j, x := range raw {
			word |= uint64(x) << (8 * j)
		}
		word >>= shift
	}
	if shift > 0 && len(raw) > 8 {
		word |= uint64(raw[8]) << (64 - shift)
	}
	return ^word & (1<<n - 1)
}

// words returns the words of key column i from row lo on, in to or in the memory of the column. The
// words of nulls are undefined.
func (h *hasher) words(i, lo int, to []uint64) []uint64 {
	c := h.keys[i]
	switch c.typ {
	case Int64, Uint64:
		return castFixed[uint64](c)[lo : lo+len(to)]
	case Int8:
		widen(to, Values[int8](c)[lo:])
	case Int16:
		widen(to, Values[int16](c)[lo:])
	case Int32:
		widen(to, Values[int32](c)[lo:])
	case Uint8:
		widen(to, Values[uint8](c)[lo:])
	case Uint16:
		widen(to, Values[uint16](c)[lo:])
	case Uint32:
		widen(to, Values[uint32](c)[lo:])
	case Float32:
		floatWords(to, Values[float32](c)[lo:])
	case Float64:
		floatWords(to, Values[float64](c)[lo:])
	case Bool:
		for j, v := range castFixed[uint8](c)[lo : lo+len(to)] {
			to[j] = uint64(min(v, 1))
		}
	case Bytes:
		if dict := h.dicts[i]; dict != nil {
			for j, code := range c.codes[lo : lo+len(to)] {
				to[j] = dict[code]
			}
			break
		}
		bytesWords(c, lo, to, h.start)
	}
	return to
}

// castFixed returns the values of a column as unsigned integers of the same size.
func castFixed[U uint8 | uint64](c Column) []U { return unsafe.Slice((*U)(c.fixed), c.n) }

func widen[T int8 | int16 | int32 | uint8 | uint16 | uint32](to []uint64, from []T) {
	from = from[:len(to)]
	for i, v := range from {
		to[i] = uint64(int64(v))
	}
}

func floatWords[T float32 | float64](to []uint64, from []T) {
	from = from[:len(to)]
	for i, v := range from {
		w := math.Float64bits(float64(v))
		if v == 0 {
			w = 0
		}
		if v != v {
			w = hash.NaNWord
		}
		to[i] = w
	}
}

// bytesWords writes the words of the byte strings from lo on.
func bytesWords(c Column, lo int, to []uint64, seed uint64) {
	switch {
	case c.strings != nil:
		for i, s := range c.strings[lo : lo+len(to)] {
			to[i] = xxh64(unsafe.Slice(unsafe.StringData(s), len(s)), seed)
		}
	case c.small != nil:
		offsetWords(to, c.small[lo:], c.data, seed)
	case c.large != nil:
		offsetWords(to, c.large[lo:], c.data, seed)
	default:
		for i := range to {
			to[i] = xxh64(c.Bytes(lo+i), seed)
		}
	}
}

func offsetWords[O int32 | int64](to []uint64, offsets []O, data []byte, seed uint64) {
	at := offsets[0]
	for i, end := range offsets[1 : len(to)+1] {
		to[i] = xxh64(data[at:end], seed)
		at = end
	}
}
