package parquet

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/cpu"
)

// Filter selects rows of a file by the values of some fields, the keys. It may pass unwanted rows.
// [github.com/weftgo/weft/join.Filter] implements it. Several goroutines call its methods
// concurrently.
type Filter interface {
	// MayContain reports whether rows may be wanted, given only bounds of key i. In each of the
	// rows, key i lies between the two values of bounds, inclusive, or is NaN, or is null if nulls
	// is set. A null bound is unknown. Empty bounds mean that key i is null in all rows.
	MayContain(i int, bounds column.Column, nulls bool) bool
	// Select appends to rows, in ascending order, the index of each row of keys that may be wanted.
	Select(keys []column.Column, rows []uint32) ([]uint32, error)
}

// Batch is a batch of rows that passed a filter.
type Batch struct {
	// Columns has a column for each field, in the order of fields. It is nil if no rows passed.
	Columns []column.Column
	// Rows is the number of rows in the file since the previous batch, including omitted rows.
	Rows int64
}

// Filtered reads fields by number like [File.Columns], and omits rows that the filter rejects. keys
// are the numbers of the fields that the filter examines. They need not be among fields.
//
// Row groups are skipped by their statistics, and pages by the page index, if the file has them. In
// the remaining pages, the keys are decoded first. Of other fields, only pages with passing rows
// are decoded. If the filter passes more than three quarters of a batch, the batch has all of its
// rows. The rest of that row group is then read without the filter. Skipped parts are not checked
// for damage.
//
// Statistics are used only if the file orders values as columns do. Statistics of INT96, intervals
// and geometry are ignored. If the file states no order, statistics are used for signed integers
// and floats only. A bound that is NaN is unknown, and so are two bounds in descending order.
// Bounds do not exclude NaN.
func (f *File) Filtered(ctx context.Context, filter Filter, keys []int,
	fields ...int) iter.Seq2[Batch, error] {
	return f.filtered(ctx, runtime.GOMAXPROCS(0), filter, keys, fields)
}

func (f *File) filtered(ctx context.Context, cores int, filter Filter, keys,
	fields []int) iter.Seq2[Batch, error] {
	all := append(append([]int(nil), keys...), fields...)
	return func(yield func(Batch, error) bool) {
		q := &query{f: f, filter: filter, keys: keys, fields: fields}
		group := func(group int) iter.Seq2[Batch, error] { return q.group(ctx, group) }
		if cores > 1 && f.RowGroups()*len(all) > 1 {
			a := f.newPrefetcher(ctx, all, cores)
			q.parts = len(a.parts)
			a.parts = [][]int{nil}
			a.read = func(group int, _ []int, _ int) iter.Seq2[Batch, error] {
				return q.group(a.ctx, group)
			}
			defer a.stop()
			group = a.group
		}
		for g := range f.RowGroups() {
			for batch, err := range group(g) {
				if !yield(batch, err) || err != nil {
					return
				}
			}
		}
	}
}

type query struct {
	f            *File
	filter       Filter
	keys, fields []int
	parts        int // number of goroutines that decode the fields of one row group
}

// group returns the batches of a row group. If the last rows of the group are omitted, the last
// batch has no columns.
func (q *query) group(ctx context.Context, group int) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		r, err := q.open(group)
		if err != nil {
			yield(Batch{}, err)
			return
		}
		defer r.release()
		done := int64(0)
		for len(r.left) > 0 {
			if err := ctx.Err(); err != nil {
				yield(Batch{}, err)
				return
			}
			piece := r.piece()
			columns, err := r.read(piece)
			if err != nil {
				yield(Batch{}, err)
				return
			}
			if columns == nil {
				continue
			}
			end := piece[len(piece)-1].hi
			if !yield(Batch{columns, end - done}, nil) {
				return
			}
			done = end
		}
		if n := q.f.meta.RowGroups[group].NumRows; done < n {
			yield(Batch{Rows: n - done}, nil)
		}
	}
}

// groupReader reads the rows of a row group that the filter passes.
type groupReader struct {
	*query
	number int
	rows   int64
	chunks []*chunk // chunks of keys come first
	nKeys  int
	at     []int // index in chunks of each key, then of each field
	left   []rowRange
	most   int64 // maximum number of rows per batch
	all    bool  // the filter passes most rows and is no longer applied
	found  []uint32
}

// open determines which rows of a row group may match, by statistics and page indexes.
func (q *query) open(group int) (*groupReader, error) {
	all := append(append([]int(nil), q.keys...), q.fields...)
	r := &groupReader{query: q, number: group, rows: q.f.meta.RowGroups[group].NumRows,
		most: int64(q.f.batchRows(group, all))}
	var err error
	if r.chunks, r.at, err = q.f.chunks(group, all); err != nil || r.rows == 0 {
		return r, err
	}
	for _, at := range r.at[:len(q.keys)] {
		r.nKeys = max(r.nKeys, at+1)
	}
	for i, at := range r.at[:len(q.keys)] {
		c := r.chunks[at]
		stats, typeOrder := q.f.chunkStats(group, c.leaf)
		if stats != nil && !stats.mayContain(q.filter, i, c.leaf, r.rows, typeOrder) {
			return r, nil
		}
	}
	r.left = []rowRange{{0, r.rows}}
	for i, at := range r.at[:len(q.keys)] {
		r.left = intersect(r.left, q.f.matchingRanges(q.filter, i, r.chunks[at]))
	}
	return r, nil
}

func (r *groupReader) release() {
	for _, c := range r.chunks {
		c.release()
	}
}

// piece removes the rows of the next batch from r.left and returns their ranges.
func (r *groupReader) piece() (piece []rowRange) {
	for n := int64(0); n < r.most && len(r.left) > 0; {
		lo := r.left[0].lo
		hi := min(r.left[0].hi, lo+r.most-n)
		piece, n = append(piece, rowRange{lo, hi}), n+hi-lo
		if r.left[0].lo = hi; hi == r.left[0].hi {
			r.left = r.left[1:]
		}
	}
	return piece
}

// read returns a column for each field with the rows of a piece that the filter passes. It returns
// nil if no row passes.
func (r *groupReader) read(piece []rowRange) ([]column.Column, error) {
	n := countRows(piece)
	got := make([]column.Column, len(r.chunks))
	if err := r.decode(got, 0, r.nKeys, piece); err != nil {
		return nil, err
	}
	if !r.all {
		keys := make([]column.Column, len(r.keys))
		for i := range keys {
			keys[i] = got[r.at[i]]
		}
		var err error
		if r.found, err = r.filter.Select(keys, r.found[:0]); err != nil {
			return nil, err
		}
		r.all = len(r.found) > n/4*3
	}
	if len(r.found) == 0 && !r.all {
		return nil, nil
	}
	if r.all {
		if err := r.decode(got, r.nKeys, len(got), piece); err != nil {
			return nil, err
		}
	} else {
		for i := range r.nKeys {
			got[i] = column.Take(cpu.Inline{}, got[i], r.found)
		}
		if err := r.decodeFound(got, piece); err != nil {
			return nil, err
		}
	}
	columns := make([]column.Column, len(r.fields))
	for i, at := range r.at[len(r.keys):] {
		columns[i] = got[at]
	}
	return columns, nil
}

// maxGap bounds the gap between two matching rows that is decoded and then discarded. Skipping
// fewer rows is estimated to cost more than decoding them.
const maxGap = 64

// decodeFound decodes the matching rows of a piece. The chunks of keys are already decoded.
func (r *groupReader) decodeFound(got []column.Column, piece []rowRange) error {
	var ranges []rowRange
	rows := make([]uint32, len(r.found)) // index of each matching row among the decoded rows
	// first counts the rows of the piece before the current range, and n the decoded rows before it
	first, n, k := int64(0), int64(0), 0
	for i, row := range r.found {
		for int64(row)-first >= piece[k].hi-piece[k].lo {
			first += piece[k].hi - piece[k].lo
			k++
		}
		at := piece[k].lo + int64(row) - first
		if m := len(ranges); m > 0 && at-ranges[m-1].hi < maxGap {
			n += at + 1 - ranges[m-1].hi
			ranges[m-1].hi = at + 1
		} else {
			n++
			ranges = append(ranges, rowRange{at, at + 1})
		}
		rows[i] = uint32(n - 1)
	}
	if err := r.decode(got, r.nKeys, len(got), ranges); err != nil {
		return err
	}
	if n > int64(len(rows)) {
		for i := r.nKeys; i < len(got); i++ {
			got[i] = column.Take(cpu.Inline{}, got[i], rows)
		}
	}
	return nil
}

// decode decodes rows of chunks lo to hi-1 into got, on at most r.parts goroutines.
func (r *groupReader) decode(got []column.Column, lo, hi int, ranges []rowRange) error {
	parts := max(min(r.parts, hi-lo), 1)
	errs := make([]error, parts)
	var work sync.WaitGroup
	for p := range parts {
		part := func() {
			for i := lo + (hi-lo)*p/parts; i < lo+(hi-lo)*(p+1)/parts && errs[p] == nil; i++ {
				c := r.chunks[i]
				var err error
				if got[i], err = c.ranges(ranges); err == nil && c.row == r.rows {
					err = c.ended()
				}
				if err != nil {
					errs[p] = fmt.Errorf("parquet: row group %d, field %q: %w", r.number, c.Name,
						err)
				}
			}
		}
		if p+1 < parts {
			work.Go(part)
		} else {
			part()
		}
	}
	work.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
