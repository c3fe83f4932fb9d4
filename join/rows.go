package join

import (
	"context"
	"fmt"
	"slices"

	"github.com/weftgo/weft/column"
)

// Count counts the rows of the build side that match each row of a side, and all pairs. counts may be
// nil; else it is as long as the key columns, or Count panics. Errors as of [Index.Inner], and then counts
// are what they happen to be.
func (ix *Index) Count(ctx context.Context, keys []column.Column, counts []uint32) (total uint64, err error) {
	err = ix.rows(ctx, "Count", keys, len(counts), counts == nil, func(p piece) {
		for i, s := range p.spans {
			total += uint64(s.n)
			if counts != nil {
				counts[p.first+i] = s.n
			}
		}
	})
	return total, err
}

// Contains counts the rows that match a row of the build side; found, if not nil, reports which, and
// is as long as the key columns, or Contains panics. Errors as of [Index.Count].
func (ix *Index) Contains(ctx context.Context, keys []column.Column, found []bool) (hits int, err error) {
	err = ix.rows(ctx, "Contains", keys, len(found), found == nil, func(p piece) {
		for i, s := range p.spans {
			if s.n > 0 {
				hits++
			}
			if found != nil {
				found[p.first+i] = s.n > 0
			}
		}
	})
	return hits, err
}

// Semi appends the numbers of the rows that match a row of the build side, in ascending order. Errors
// as of [Index.Inner], and then rows stays as it was.
func (ix *Index) Semi(ctx context.Context, keys []column.Column, rows []uint32) ([]uint32, error) {
	return ix.appendRows(ctx, "Semi", keys, rows, true)
}

// Anti appends the numbers of the rows that match no row of the build side, those with nulls among them
// but with NullsMatch. Otherwise it is as [Index.Semi].
func (ix *Index) Anti(ctx context.Context, keys []column.Column, rows []uint32) ([]uint32, error) {
	return ix.appendRows(ctx, "Anti", keys, rows, false)
}

func (ix *Index) appendRows(ctx context.Context, method string, keys []column.Column, rows []uint32, matching bool) ([]uint32, error) {
	n, all := len(rows), rows
	err := ix.rows(ctx, method, keys, 0, true, func(p piece) {
		at := len(all)
		all = slices.Grow(all, len(p.spans)+1)[:at+len(p.spans)+1]
		for i, s := range p.spans {
			all[at] = uint32(p.first + i)
			if (s.n > 0) == matching {
				at++
			}
		}
		all = all[:at]
	})
	if err != nil {
		return rows[:n], err
	}
	return all, nil
}

// rows has body look at all pieces. Outputs are as long as the keys, if there are any.
func (ix *Index) rows(ctx context.Context, method string, keys []column.Column, outputs int, none bool, body func(piece)) error {
	if len(keys) > 0 && !none && outputs != keys[0].Len() {
		panic(fmt.Sprintf("join: %s: %d results for %d rows", method, outputs, keys[0].Len()))
	}
	err := ix.each(ctx, keys, func(p piece) bool {
		body(p)
		return true
	})
	if err != nil {
		return fmt.Errorf("join: %s: %w", method, err)
	}
	return nil
}
