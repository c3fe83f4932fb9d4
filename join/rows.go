package join

import (
	"context"
	"fmt"
	"slices"

	"github.com/weftgo/weft/column"
)

// Count writes to counts the number of rows of the build side that match each row. It returns the
// total number of pairs. If counts is not nil, it must have the length of the key columns, or Count
// panics. After an error, counts is undefined. See [Index.Inner] for the errors.
func (ix *Index) Count(ctx context.Context, keys []column.Column, counts []uint32) (total uint64, err error) {
	err = ix.visitMatches(ctx, "Count", keys, len(counts), counts == nil, func(p piece) {
		for i, s := range p.spans {
			total += uint64(s.n)
			if counts != nil {
				counts[p.first+i] = s.n
			}
		}
	})
	return total, err
}

// Contains returns the number of rows that match a row of the build side. If found is not nil,
// Contains sets found[i] to whether row i matches. It panics if found has another length than the
// key columns. After an error, found is undefined. See [Index.Inner] for the errors.
func (ix *Index) Contains(ctx context.Context, keys []column.Column, found []bool) (hits int, err error) {
	err = ix.visitMatches(ctx, "Contains", keys, len(found), found == nil, func(p piece) {
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

// Semi appends to rows the numbers of the rows that match a row of the build side, in ascending
// order. After an error, it returns rows unchanged. See [Index.Inner] for the errors.
func (ix *Index) Semi(ctx context.Context, keys []column.Column, rows []uint32) ([]uint32, error) {
	return ix.appendRows(ctx, "Semi", keys, rows, true)
}

// Anti appends to rows the numbers of the rows that match no row of the build side, in ascending
// order. Rows with nulls are among them unless NullsMatch is set. After an error, it returns rows
// unchanged. See [Index.Inner] for the errors.
func (ix *Index) Anti(ctx context.Context, keys []column.Column, rows []uint32) ([]uint32, error) {
	return ix.appendRows(ctx, "Anti", keys, rows, false)
}

func (ix *Index) appendRows(ctx context.Context, method string, keys []column.Column, rows []uint32, matching bool) ([]uint32, error) {
	n, all := len(rows), rows
	err := ix.visitMatches(ctx, method, keys, 0, true, func(p piece) {
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

// visitMatches calls body for each piece. It panics if an output has another length than keys.
func (ix *Index) visitMatches(ctx context.Context, method string, keys []column.Column, outputs int, noOutput bool, body func(piece)) error {
	if len(keys) > 0 && !noOutput && outputs != keys[0].Len() {
		panic(fmt.Sprintf("join: %s: %d results for %d rows", method, outputs, keys[0].Len()))
	}
	err := ix.visitPieces(ctx, keys, func(p piece) bool {
		body(p)
		return true
	})
	if err != nil {
		return fmt.Errorf("join: %s: %w", method, err)
	}
	return nil
}
