package spill

import (
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
)

// Taker gathers rows of pages like Take, but reuses its memory, because allocating and zeroing new
// memory takes longer than the copy. The zero value is ready. Only one goroutine may use a Taker at
// a time.
type Taker struct {
	words [][]uint64 // by column
}

// Take returns the given rows of a page, in that order. They are valid until the next call. Columns
// with nulls or byte strings have their own memory.
func (t *Taker) Take(dev device.Host, page []column.Column, rows []uint32) []column.Column {
	for len(t.words) < len(page) {
		t.words = append(t.words, nil)
	}
	out := make([]column.Column, len(page))
	for i, c := range page {
		if c.Type() == column.Bytes || c.HasNulls() {
			out[i] = column.Take(dev, c, rows)
		} else {
			out[i] = t.take(dev, i, c, rows)
		}
	}
	return out
}

func (t *Taker) take(dev device.Host, i int, c column.Column, rows []uint32) column.Column {
	size := c.Type().Size()
	if words := (len(rows)*size + 7) / 8; words > len(t.words[i]) {
		t.words[i] = make([]uint64, words+words/8)
	}
	first := (*byte)(unsafe.Pointer(unsafe.SliceData(t.words[i])))
	to, from := unsafe.Slice(first, len(rows)*size), c.Raw()
	switch size {
	case 1:
		takeRows(dev, to, from, rows)
	case 2:
		takeRows(dev, cast[uint16](to), cast[uint16](from), rows)
	case 4:
		takeRows(dev, cast[uint32](to), cast[uint32](from), rows)
	default:
		takeRows(dev, cast[uint64](to), cast[uint64](from), rows)
	}
	taken, err := column.OfRaw(c.Type(), to)
	if err != nil {
		panic(err) // cannot happen: the length is a multiple of the value size
	}
	return taken
}

// takeGrain is the number of rows that a core copies at a time.
const takeGrain = 1 << 14

func takeRows[T number](dev device.Host, to, from []T, rows []uint32) {
	dev.Parallel(len(rows), takeGrain, func(lo, hi int) {
		to := to[lo:hi]
		for i, row := range rows[lo:hi] {
			to[i] = from[row]
		}
	})
}
