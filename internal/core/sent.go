package core

import (
	"fmt"

	"github.com/weftgo/weft/internal/op"
)

// submissions records what has been submitted to streams since the last Sync, as one batch: the
// changes of calls that returned no error, in the order of the calls.
type submissions struct {
	ops    int
	failed []int // operations that overflowed, ascending
}

// add appends a batch of n operations; rows lists those that overflowed.
func (s *submissions) add(n int, rows []int) {
	s.failed = appendRows(s.failed, s.ops, rows)
	s.ops += n
}

// partialError returns the error of Sync if operations overflowed: those in failed, and extra ones
// that the engine has counted. The counted ones come from kernels of users and have no rows.
func (s *submissions) partialError(extra int, place string) error {
	n := len(s.failed) + extra
	if n == 0 {
		return nil
	}
	return &op.PartialError{Done: s.ops, Failed: n, Rows: s.failed,
		Err: fmt.Errorf("%w: no room for %d operations since the last Sync, %s", op.ErrFull, n, place)}
}

// appendRows appends the rows of a part of a batch; first is the part's first row in the batch.
func appendRows[R int | uint32](rows []int, first int, part []R) []int {
	for _, r := range part {
		rows = append(rows, first+int(r))
	}
	return rows
}

// mapRows translates rows of a gathered batch to rows of its source; at lists the gathered rows.
func mapRows[R int | uint32](at []uint32, rows []R) []int {
	all := make([]int, len(rows))
	for i, r := range rows {
		all[i] = int(at[r])
	}
	return all
}
