package join

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/rowkey"
)

// word is the key of a row in an index. Rows with equal words have equal keys.
type word interface{ uint32 | uint64 }

// plan describes how key columns become words.
type plan struct {
	types  []column.Type
	words  rowkey.Words
	packed bool // the word holds the key; otherwise the number of the key in package intern
	nulls  bool // null is a key
}

// planOf returns the plan for columns of these types.
func planOf(keys []column.Column, nullsMatch bool) (plan, error) {
	if len(keys) == 0 {
		return plan{}, fmt.Errorf("%w: no key columns", op.ErrOptions)
	}
	p := plan{nulls: nullsMatch, types: rowkey.TypesOf(keys)}
	for i, t := range p.types {
		if t == column.None {
			return plan{}, fmt.Errorf("%w: key column %d has no type; an empty column of some type is column.Of([]int64{})", op.ErrOptions, i)
		}
	}
	// A null of the only key column needs no bit.
	p.words, p.packed = rowkey.WordsOf(p.types, nullsMatch && len(keys) > 1)
	return p, nil
}

// check returns the number of rows, or an error for columns that do not fit the plan. Columns of
// different length panic.
func (p *plan) check(keys []column.Column) (n int, err error) {
	if len(keys) != len(p.types) {
		return 0, fmt.Errorf("%w: %d key columns, want %d", op.ErrOptions, len(keys), len(p.types))
	}
	for i, c := range keys {
		if c.Type() != p.types[i] {
			return 0, fmt.Errorf("%w: key column %d holds %v, want %v", op.ErrOptions, i, c.Type(),
				p.types[i])
		}
	}
	n = keys[0].Len()
	for i, c := range keys {
		if c.Len() != n {
			panic(fmt.Sprintf("join: key column %d has %d rows and column 0 has %d", i, c.Len(), n))
		}
	}
	if n > maxRows {
		return 0, fmt.Errorf("%w: %d rows; row numbers end at %d", op.ErrOptions, n, uint32(maxRows))
	}
	return n, nil
}

// maxRows is less than NoRow.
const maxRows = math.MaxUint32 - 1

// signed reports whether the word is one signed integer.
func (p *plan) signed() bool {
	return len(p.types) == 1 && p.types[0].Signed() && p.types[0].Size() >= 4
}

// source reads the words of rows.
type source[K word] struct {
	plan  *plan
	n     int
	cols  []column.Column
	words []K  // the words of all rows, if they are already in memory
	nulls bool // rows may have a null, and their word is undefined
}

// sourceOf returns a source of packed words. The columns must have been checked.
func sourceOf[K word](p *plan, keys []column.Column) *source[K] {
	s := &source[K]{plan: p, n: keys[0].Len(), cols: keys}
	for _, c := range keys {
		s.nulls = s.nulls || c.HasNulls() && !p.words.Nulls()
	}
	var k K
	if t := p.types[0]; len(keys) == 1 && t.Integer() && t.Size() == int(unsafe.Sizeof(k)) {
		s.words = raw[K](keys[0])
	}
	return s
}

// blockRows is the number of rows to read at a time. Their words stay in the first-level cache.
const blockRows = 1 << 10

// block is memory for the words of a block of rows.
type block[K word] struct {
	words   [blockRows]K
	null    [blockRows]bool
	buckets [blockRows]uint32
}

// read returns the words of rows lo to hi-1, at most blockRows. null marks the rows with a null,
// and is nil if the source has no such rows.
func (s *source[K]) read(b *block[K], lo, hi int) (words []K, null []bool) {
	if s.nulls {
		null = b.null[:hi-lo]
		clear(null)
		for _, c := range s.cols {
			if !c.HasNulls() {
				continue
			}
			for i := range null {
				null[i] = null[i] || c.Null(lo+i)
			}
		}
	}
	if s.words != nil {
		return s.words[lo:hi], null
	}
	words = b.words[:hi-lo]
	rowkey.Pack(&s.plan.words, s.cols, lo, words)
	return words, null
}

// raw returns the memory of a column of integers as unsigned integers.
func raw[U uint8 | uint16 | uint32 | uint64](c column.Column) []U {
	return unsafe.Slice((*U)(unsafe.Pointer(unsafe.SliceData(c.Raw()))), c.Len())
}
