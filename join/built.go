package join

import (
	"bytes"
	"context"
	"errors"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/spill"
)

// indexedRows holds right rows and their index. Keys of up to 64 bits are indexed as they are.
// Wider keys are indexed by a hash of 64 bits, and compared after the lookup.
type indexedRows struct {
	*job
	index       *Index
	n           int             // rows
	view        []column.Column // columns of the store; for Left, a row of nulls follows
	maxRowBytes int64           // bytes of the longest right row in the result
}

func (j *job) newIndexedRows(ctx context.Context, s *spill.Store) (*indexedRows, error) {
	x := &indexedRows{job: j, n: s.Len(), view: s.View()}
	if j.opts.Memory > 0 {
		x.maxRowBytes = maxRowBytes(x.view[j.keys:])
	}
	var err error
	x.index, err = New(ctx, j.dev, x.indexKeys(x.view[:j.keys]), &Options{NullsMatch: j.opts.NullsMatch,
		Piece: j.opts.Piece})
	if err != nil {
		return nil, err
	}
	if j.kind == Left {
		if x.view, err = s.ViewWithNull(j.dev); err != nil {
			return nil, errors.Join(err, x.index.Close())
		}
		if !j.opts.NullsMatch { // only the added row has null keys
			copy(x.view, s.ViewNotNull(j.keys))
		}
	}
	return x, nil
}

func (x *indexedRows) close() error {
	if x == nil {
		return nil
	}
	return x.index.Close()
}

func (x *indexedRows) distinct() int { return x.index.Distinct() }

// indexKeys returns the columns to index or look up for keys.
func (x *indexedRows) indexKeys(keys []column.Column) []column.Column {
	if x.plan.packed {
		return keys
	}
	hashes := make([]uint64, keys[0].Len())
	column.Hash(x.dev, keys, x.hashSeed, hashes)
	return []column.Column{column.Of(hashes)}
}

// visitPairs passes the pairs of rows with equal keys to f, in the order of the left rows. f may
// change the pairs.
func (x *indexedRows) visitPairs(ctx context.Context, keys []column.Column,
	f func(left, right []uint32) error) error {
	for p, err := range x.index.Inner(ctx, x.indexKeys(keys)) {
		if err != nil {
			return err
		}
		left, right := p.Left, p.Right
		if !x.plan.packed {
			left, right = x.verify(keys, left, right)
		}
		if err := f(left, right); err != nil {
			return err
		}
	}
	return nil
}

// verify keeps the pairs with equal keys, out of pairs with equal hashes.
func (x *indexedRows) verify(keys []column.Column, left, right []uint32) (l, r []uint32) {
	differ := make([]bool, len(left))
	x.dev.Parallel(len(left), 1<<12, func(lo, hi int) {
		for i, c := range keys {
			markDiffering(c, x.view[i], left[lo:hi], right[lo:hi], differ[lo:hi])
		}
	})
	n := 0
	for i, d := range differ {
		if !d {
			left[n], right[n] = left[i], right[i]
			n++
		}
	}
	return left[:n], right[:n]
}

// markDiffering sets differ for each pair whose values in columns a and b differ. b must be a
// column of a spill.Store.
func markDiffering(a, b column.Column, left, right []uint32, differ []bool) {
	if _, ends, data := b.Offsets(); ends != nil && len(data) > 0 && !a.HasNulls() &&
		!b.HasNulls() {
		markDifferingTexts(a, ends, data, left, right, differ)
		return
	}
	for i, l := range left {
		if !differ[i] {
			differ[i] = !equalOrNull(a, b, int(l), int(right[i]))
		}
	}
}

// markDifferingTexts is markDiffering for byte strings. It prefetches the strings of later pairs.
func markDifferingTexts(a column.Column, ends []int64, data []byte, left, right []uint32,
	differ []bool) {
	n := len(left)
	next := func(lo int) []uint32 { return right[min(lo, n):min(lo+cpu.Group, n)] }
	prefetch := func(rows []uint32) {
		var at [cpu.Group]unsafe.Pointer
		for i, r := range rows {
			at[i] = unsafe.Pointer(&data[min(ends[r], int64(len(data)-1))])
		}
		cpu.PrefetchPairs(at[:len(rows)])
	}
	cpu.Prefetch(unsafe.Pointer(&ends[0]), next(0), 3)
	prefetch(next(0))
	for lo := 0; lo < n; lo += cpu.Group {
		cpu.Prefetch(unsafe.Pointer(&ends[0]), next(lo+2*cpu.Group), 3)
		prefetch(next(lo + cpu.Group))
		for i := lo; i < min(lo+cpu.Group, n); i++ {
			r := right[i]
			if string(a.Bytes(int(left[i]))) != string(data[ends[r]:ends[r+1]]) {
				differ[i] = true
			}
		}
	}
}

// equalOrNull reports whether values l of a and r of b are equal, or both null.
func equalOrNull(a, b column.Column, l, r int) bool {
	if a.Null(l) || b.Null(r) {
		return a.Null(l) && b.Null(r)
	}
	return equalValues(a, b, l, r)
}

// equalValues compares values that are not null, in columns of the same type.
func equalValues(a, b column.Column, l, r int) bool {
	switch t := a.Type(); {
	case t == column.Bytes:
		return bytes.Equal(a.Bytes(l), b.Bytes(r))
	case t == column.Float32:
		return equalFloats(column.Values[float32](a)[l], column.Values[float32](b)[r])
	case t == column.Float64:
		return equalFloats(column.Values[float64](a)[l], column.Values[float64](b)[r])
	default:
		size := t.Size()
		return string(a.Raw()[l*size:(l+1)*size]) == string(b.Raw()[r*size:(r+1)*size])
	}
}

func equalFloats[F float32 | float64](a, b F) bool { return a == b || a != a && b != b }

// firstRows returns the first row of each key, ascending. If hashes collide, it may include further
// rows.
func (x *indexedRows) firstRows(ctx context.Context) (rows []uint32, err error) {
	keys := x.view[:x.keys]
	err = x.index.visitPieces(ctx, x.indexKeys(keys), func(p piece) bool {
		for i, s := range p.spans {
			row, first := uint32(p.first+i), s.at
			if s.n > 1 {
				first = p.rows[s.at]
			}
			if first == row || !x.plan.packed && !x.equalRows(keys, int(first), int(row)) {
				rows = append(rows, row)
			}
		}
		return true
	})
	return rows, err
}

// equalRows reports whether two right rows have equal keys.
func (x *indexedRows) equalRows(keys []column.Column, a, b int) bool {
	for _, c := range keys {
		if !equalOrNull(c, c, a, b) {
			return false
		}
	}
	return true
}

// matches returns the left rows with a match, ascending.
func (x *indexedRows) matches(ctx context.Context, b *leftBatch) (rows []uint32, err error) {
	if x.plan.packed {
		rows, err = x.index.Semi(ctx, b.keys, nil)
	} else {
		err = x.visitPairs(ctx, b.keys, func(left, _ []uint32) error {
			for _, l := range left {
				if n := len(rows); n == 0 || rows[n-1] != l {
					rows = append(rows, l)
				}
			}
			return nil
		})
	}
	return b.toRows(rows), err
}

// joinBatch yields the joined rows of a batch.
func (x *indexedRows) joinBatch(ctx context.Context, b *leftBatch, emit emitter) error {
	switch x.kind {
	case Inner:
		return x.visitPairs(ctx, b.keys, func(left, right []uint32) error {
			return x.emitPairs(b, b.toRows(left), right, emit)
		})
	case Left:
		return x.joinLeft(ctx, b, emit)
	}
	rows, err := x.matches(ctx, b)
	if err == nil && x.kind == Anti {
		rows = b.unmatched(rows)
	}
	if err != nil {
		return err
	}
	return x.emitLeft(b, rows, emit)
}

// joinLeft yields the pairs of a batch and its rows without a match, in the order of the left rows.
func (x *indexedRows) joinLeft(ctx context.Context, b *leftBatch, emit emitter) error {
	var left, right []uint32
	next := 0 // first row without a pair so far
	fill := func(to int) {
		for ; next < to; next++ {
			if !b.isSkipped(next) {
				left, right = append(left, uint32(next)), append(right, uint32(x.n))
			}
		}
	}
	err := x.visitPairs(ctx, b.keys, func(l, r []uint32) error {
		left, right = left[:0], right[:0]
		for i, row := range b.toRows(l) {
			if int(row) >= next {
				fill(int(row))
				next = int(row) + 1
			}
			left, right = append(left, row), append(right, r[i])
		}
		return x.emitPairs(b, left, right, emit)
	})
	if err != nil {
		return err
	}
	left, right = left[:0], right[:0]
	fill(b.n)
	return x.emitPairs(b, left, right, emit)
}

// emitPairs yields the columns of pairs.
func (x *indexedRows) emitPairs(b *leftBatch, left, right []uint32, emit emitter) error {
	for len(left) > 0 {
		n := x.batchLen(b, left, right)
		columns := append(spill.Take(x.dev, b.columns, left[:n]),
			spill.Take(x.dev, x.view[x.keys:], right[:n])...)
		if err := emit(columns); err != nil {
			return err
		}
		left, right = left[n:], right[n:]
	}
	return nil
}

// emitLeft yields the columns of left rows.
func (x *indexedRows) emitLeft(b *leftBatch, rows []uint32, emit emitter) error {
	for len(rows) > 0 {
		n := x.batchLen(b, rows, nil)
		if err := emit(spill.Take(x.dev, b.columns, rows[:n])); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// batchLen returns the number of rows, at least one, that fit a batch of the result. It computes
// the size of each row, because a long row may repeat any number of times.
func (x *indexedRows) batchLen(b *leftBatch, left, right []uint32) int {
	n := min(len(left), x.opts.Piece)
	if x.opts.Memory == 0 {
		return n
	}
	if b.maxRowBytes == 0 {
		b.maxRowBytes = maxRowBytes(b.columns)
	}
	longest := b.maxRowBytes
	if right != nil {
		longest += x.maxRowBytes
	}
	if int64(n)*longest <= x.batchBytes {
		return n
	}
	bytes := int64(0)
	for i := range n {
		bytes += rowBytes(b.columns, int(left[i]))
		if right != nil {
			bytes += rowBytes(x.view[x.keys:], int(right[i]))
		}
		if bytes > x.batchBytes && i > 0 {
			return i
		}
	}
	return n
}

// maxRowBytes returns an upper bound on the bytes of any row.
func maxRowBytes(columns []column.Column) int64 {
	n := int64(1)
	for _, c := range columns {
		if c.Type() != column.Bytes {
			n += int64(c.Type().Size())
			continue
		}
		values, longest := c, 0
		if c.HasCodes() {
			_, values = c.Codes()
		}
		for i := range values.Len() {
			longest = max(longest, len(values.Bytes(i)))
		}
		n += 8 + int64(longest)
	}
	return n
}

func rowBytes(columns []column.Column, row int) int64 {
	n := int64(1)
	for _, c := range columns {
		if c.Type() == column.Bytes {
			n += 8 + int64(len(c.Bytes(row)))
		} else {
			n += int64(c.Type().Size())
		}
	}
	return n
}

type leftBatch struct {
	n           int
	columns     []column.Column // columns of all rows
	keys        []column.Column // keys of the rows that may match here
	rows        []uint32        // numbers of these rows, ascending; nil: all rows
	skipped     []bool          // rows that are joined later; nil: none
	maxRowBytes int64           // bytes of the longest row; 0: not computed yet
}

// toRows replaces indexes in keys by row numbers, in place.
func (b *leftBatch) toRows(keys []uint32) []uint32 {
	if b.rows != nil {
		for i, k := range keys {
			keys[i] = b.rows[k]
		}
	}
	return keys
}

func (b *leftBatch) markSkipped(rows []uint32) {
	b.skipped = make([]bool, b.n)
	for _, r := range rows {
		b.skipped[r] = true
	}
}

func (b *leftBatch) isSkipped(row int) bool { return b.skipped != nil && b.skipped[row] }

// unmatched returns the rows that are neither in rows nor skipped. rows must ascend.
func (b *leftBatch) unmatched(rows []uint32) (unmatched []uint32) {
	for row := range b.n {
		if len(rows) > 0 && int(rows[0]) == row {
			rows = rows[1:]
		} else if !b.isSkipped(row) {
			unmatched = append(unmatched, uint32(row))
		}
	}
	return unmatched
}

// matchable returns the rows whose keys may match. If all may, it returns no rows and true.
func (j *job) matchable(keys []column.Column) (rows []uint32, all bool) {
	all = true
	for _, c := range keys {
		all = all && (j.opts.NullsMatch || c.Nulls() == 0)
	}
	if all {
		return nil, true
	}
	rows = make([]uint32, 0, keys[0].Len())
	for row := range keys[0].Len() {
		null := false
		for _, c := range keys {
			null = null || c.Null(row)
		}
		if !null {
			rows = append(rows, uint32(row))
		}
	}
	return rows, false
}
