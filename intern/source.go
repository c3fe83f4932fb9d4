package intern

import (
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/rowkey"
)

// source holds the items of a chunk, in one of the forms of a column. span and gather return many
// items per call, because a call of a type parameter's method costs 3 ns and is never inlined.
type source interface {
	at(i int) []byte
	span(lo int, out [][]byte)          // items from lo on
	gather(rows []uint32, out [][]byte) // items of the given rows
}

type (
	stringItems                  []string
	offsetItems[O int32 | int64] struct {
		offsets []O
		data    []byte
	}
	wideItems struct {
		width int
		data  []byte
	}
)

func (s stringItems) at(i int) []byte {
	return unsafe.Slice(unsafe.StringData(s[i]), len(s[i]))
}

func (s stringItems) span(lo int, out [][]byte) {
	for i := range out {
		out[i] = s.at(lo + i)
	}
}

func (s stringItems) gather(rows []uint32, out [][]byte) {
	for i, row := range rows {
		out[i] = s.at(int(row))
	}
}

func (s offsetItems[O]) at(i int) []byte { return s.data[s.offsets[i]:s.offsets[i+1]] }

func (s offsetItems[O]) span(lo int, out [][]byte) { rowkey.SplitTexts(s.offsets[lo:], s.data, out) }

func (s offsetItems[O]) gather(rows []uint32, out [][]byte) {
	for i, row := range rows {
		out[i] = s.data[s.offsets[row]:s.offsets[row+1]]
	}
}

func (s wideItems) at(i int) []byte { return s.data[i*s.width : (i+1)*s.width] }

func (s wideItems) span(lo int, out [][]byte) {
	for i := range out {
		out[i] = s.at(lo + i)
	}
}

func (s wideItems) gather(rows []uint32, out [][]byte) {
	for i, row := range rows {
		out[i] = s.at(int(row))
	}
}

// chunkFunc returns a chunk of the rows of a call, from row lo on, as a column. The chunk is valid
// until the next call.
type chunkFunc func(lo int) column.Column

// next returns the number of rows in the chunk from row lo on, for a batch of n rows.
func (t *Table) next(lo, n int) int { return min(t.chunk, max(firstRows, 3*lo), n-lo) }

// columnChunks returns chunks of a column.
func (t *Table) columnChunks(s *scratch, c column.Column) chunkFunc {
	return func(lo int) column.Column { return s.withoutCodes(c.Slice(lo, lo+t.next(lo, c.Len()))) }
}

// withoutCodes returns the column with its values as strings if it has codes.
func (s *scratch) withoutCodes(c column.Column) column.Column {
	codes, dict := c.Codes()
	if !c.HasCodes() {
		return c
	}
	s.strings = s.strings[:0]
	for _, code := range codes {
		b := dict.Bytes(int(code))
		s.strings = append(s.strings, unsafe.String(unsafe.SliceData(b), len(b)))
	}
	return column.OfStrings(s.strings)
}

// byteChunks returns chunks of byte slices, as strings over the same memory.
func (t *Table) byteChunks(s *scratch, items [][]byte) chunkFunc {
	return func(lo int) column.Column {
		part := items[lo : lo+t.next(lo, len(items))]
		clear(s.strings) // a shorter chunk would keep references to some of these
		s.strings = s.strings[:0]
		for _, b := range part {
			s.strings = append(s.strings, unsafe.String(unsafe.SliceData(b), len(b)))
		}
		return column.OfStrings(s.strings)
	}
}

// rowChunks returns chunks of encoded rows.
func (t *Table) rowChunks(s *scratch, cols []column.Column) chunkFunc {
	return func(lo int) column.Column {
		n := t.next(lo, cols[0].Len())
		if t.plain {
			s.nulls = cols[0].Slice(lo, lo+n)
			return s.withoutCodes(s.nulls)
		}
		if t.words {
			s.encoded = resize(s.encoded, 8*n)
			words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(s.encoded))), n)
			t.parallel(n, func(from, to int) { rowkey.Pack(&t.packed, cols, lo+from, words[from:to]) })
			s.nulls = column.Column{}
			if !t.packed.Nulls() {
				s.nulls = cols[0].Slice(lo, lo+n)
			}
			return must(column.OfWidth(8, s.encoded))
		}
		if w := t.rows.Width(); w > 0 {
			s.encoded = resize(s.encoded, n*w)
			t.parallel(n, func(from, to int) {
				t.rows.Encode(cols, lo+from, to-from, s.encoded[from*w:to*w], nil)
			})
			return must(column.OfWidth(w, s.encoded))
		}
		s.offsets = resize(s.offsets, n+1)
		sizes := s.offsets[1:]
		t.parallel(n, func(from, to int) { t.rows.Sizes(cols, lo+from, sizes[from:to]) })
		s.offsets[0] = 0
		total := int64(0)
		for i, size := range sizes {
			if total += size; total > chunkBytes && i > 0 { // at least one row
				total, n = total-size, i
				break
			}
			sizes[i] = total
		}
		offsets := s.offsets[:n+1]
		s.encoded = resize(s.encoded, int(total))
		t.parallel(n, func(from, to int) {
			t.rows.Encode(cols, lo+from, to-from, s.encoded, offsets[from:to+1])
		})
		return must(column.OfOffsets(offsets, s.encoded))
	}
}

// must panics on an error. Columns that this package makes are valid.
func must(c column.Column, err error) column.Column {
	if err != nil {
		panic(err)
	}
	return c
}

// resize returns a slice of length n with undefined contents, in the memory of s if it suffices.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
