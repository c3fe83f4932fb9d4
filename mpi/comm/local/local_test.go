package local_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/local"
)

func TestRunReturnsFirstError(t *testing.T) {
	broken := errors.New("broken")
	err := local.Run(t.Context(), 5, func(ctx context.Context, c comm.Comm) error {
		if c.Rank() == 3 {
			return broken
		}
		err := c.Barrier(ctx)
		if !errors.Is(err, comm.ErrAborted) {
			t.Errorf("rank %d: Barrier returned %v", c.Rank(), err)
		}
		return err
	})
	if !errors.Is(err, broken) {
		t.Errorf("Run returned %v", err)
	}
}
