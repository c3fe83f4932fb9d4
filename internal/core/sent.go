package core

import (
	"fmt"

	"github.com/weftgo/weft/internal/op"
)

// sent is what has been submitted to streams since the last Sync, as one batch: the changes of
// calls that returned no error, in the order of the calls.
type sent struct {
	ops    int
	failed []int // operations without room, ascending
}

// add appends a batch of n operations, where rows found no room.
func (s *sent) add(n int, rows []int) {
	s.failed = appendRows(s.failed, s.ops, rows)
	s.ops += n
}

// partial returns the error of Sync, if operations found no room: those in failed, and more that
// the engine has counted. These are of kernels of users, which have no rows.
func (s *sent) partial(more int, where string) error {
	n := len(s.failed) + more
	if n == 0 {
		return nil
	}
	return &op.PartialError{Done: s.ops, Failed: n, Rows: s.failed,
		Err: fmt.Errorf("%w: no room for %d operations since the last Sync, %s", op.ErrFull, n, where)}
}

// appendRows appends rows of a part of a batch, which begins at a row of the whole.
func appendRows[R int | uint32](rows []int, first int, part []R) []int {
	for _, r := range part {
		rows = append(rows, first+int(r))
	}
	return rows
}

// through translates rows of a batch that has been gathered from rows at of another.
func through[R int | uint32](at []uint32, rows []R) []int {
	all := make([]int, len(rows))
	for i, r := range rows {
		all[i] = int(at[r])
	}
	return all
}
