package group

import (
	"math"
	"sync/atomic"

	"github.com/weftgo/weft/column"
)

// writer makes a column of values of groups, in the order of their places.
type writer struct {
	read    reader
	scatter func(r *run, words []uint64) // stores values of types of fixed size
	build   func() column.Column
	texts   [][]byte // values of byte strings

	nullBits []byte // a bit for each group
	hasNulls atomic.Bool
	n        int
}

// newWriter returns a writer of a column of n values.
func newWriter(t column.Type, n int, read reader) *writer {
	w := &writer{read: read, n: n, nullBits: make([]byte, (n+7)/8)}
	switch t {
	case column.Int8:
		ints[int8](w)
	case column.Int16:
		ints[int16](w)
	case column.Int32:
		ints[int32](w)
	case column.Int64:
		ints[int64](w)
	case column.Uint8:
		ints[uint8](w)
	case column.Uint16:
		ints[uint16](w)
	case column.Uint32:
		ints[uint32](w)
	case column.Uint64:
		ints[uint64](w)
	case column.Float32:
		floats[float32](w)
	case column.Float64:
		floats[float64](w)
	case column.Bool:
		values := make([]bool, n)
		w.build = func() column.Column { return column.Of(values) }
		w.scatter = func(r *run, words []uint64) {
			for i, at := range r.places {
				values[at-r.base] = words[i] != 0
			}
		}
	default:
		w.texts = make([][]byte, n)
		w.build = func() column.Column { return concatTexts(w.texts) }
	}
	return w
}

func ints[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](w *writer) {
	values := make([]T, w.n)
	w.build = func() column.Column { return column.Of(values) }
	w.scatter = func(r *run, words []uint64) {
		base := r.base
		for i, at := range r.places {
			values[at-base] = T(words[i])
		}
	}
}

func floats[T float32 | float64](w *writer) {
	values := make([]T, w.n)
	w.build = func() column.Column { return column.Of(values) }
	w.scatter = func(r *run, words []uint64) {
		base := r.base
		for i, at := range r.places {
			values[at-base] = T(math.Float64frombits(words[i]))
		}
	}
}

// concatTexts returns a column of byte strings in one piece of memory.
func concatTexts(texts [][]byte) column.Column {
	offsets := make([]int64, len(texts)+1)
	for i, v := range texts {
		offsets[i+1] = offsets[i] + int64(len(v))
	}
	data := make([]byte, 0, offsets[len(texts)])
	for _, v := range texts {
		data = append(data, v...)
	}
	c, err := column.OfOffsets(offsets, data)
	if err != nil {
		panic(err) // cannot happen: offsets ascend and end with the data
	}
	return c
}

func (w *writer) write(r *run, b *readBuffer) {
	var nulls bool
	if w.texts != nil {
		nulls = w.read.texts(r, b, w.texts)
	} else {
		nulls = w.read.words(r, b)
		w.scatter(r, b.words[:r.n])
	}
	if !nulls {
		return
	}
	hasNull := false
	for i, at := range r.places {
		if b.null[i] {
			at -= r.base
			w.nullBits[at/8] |= 1 << (at % 8)
			hasNull = true
		}
	}
	if hasNull {
		w.hasNulls.Store(true)
	}
}

func (w *writer) column() column.Column {
	c := w.build()
	if !w.hasNulls.Load() {
		return c
	}
	for i := range w.nullBits {
		w.nullBits[i] = ^w.nullBits[i]
	}
	return c.WithValid(column.OfBits(w.nullBits, 0, w.n))
}
