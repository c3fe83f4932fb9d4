package core

import (
	"fmt"

	"github.com/weftgo/weft/internal/op"
)

// submissions records the operations submitted to streams since the last Sync, as one batch. It
// contains the changes of all calls that returned no error, in the order of the calls.
type submissions struct {
	ops    int
	failed []int // operations that overflowed, ascending
}

// add appends a batch of n operations. rows lists the operations of that batch that overflowed.
func (s *submissions) add(n int, rows []int) {
	s.failed = appendRows(s.failed, s.ops, rows)
	s.ops += n
}

// partialError returns the error of Sync, or nil if no operation overflowed. extra is the number of
// overflowed operations that the engine has counted. They come from users' kernels and have no
// rows.
func (s *submissions) partialError(extra int, place string) error {
	n := len(s.failed) + extra
	if n == 0 {
		return nil
	}
	return &op.PartialError{Done: s.ops, Failed: n, Rows: s.failed,
		Err: fmt.Errorf("%w: no room for %d operations since the last Sync, %s", op.ErrFull, n, place)}
}

// appendRows appends the rows of a part of a batch to rows. first is the index of the part's first
// row in the batch.
func appendRows[R int | uint32](rows []int, first int, part []R) []int {
	for _, r := range part {
		rows = append(rows, first+int(r))
	}
	return rows
}

// mapRows translates rows of a gathered batch to rows of its source. Row i of the gathered batch is
// row at[i] of the source.
func mapRows[R int | uint32](at []uint32, rows []R) []int {
	all := make([]int, len(rows))
	for i, r := range rows {
		all[i] = int(at[r])
	}
	return all
}
