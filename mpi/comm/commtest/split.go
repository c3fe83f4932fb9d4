package commtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
)

// members gathers the argument rank from all ranks of a group.
func members(ctx context.Context, c comm.Comm, rank int) ([]uint64, error) {
	ranks := make([]uint64, c.Size())
	err := c.AllGather(ctx, []uint64{uint64(rank)}, ranks)
	return ranks, err
}

// split splits ranks into two groups, in descending order of ranks. A third of the ranks get no
// group.
func split(ctx context.Context, c comm.Comm) error {
	color := c.Rank() % 3
	if color == 2 {
		color = -1
	}
	sub, err := c.Split(ctx, color, -c.Rank())
	if err != nil {
		return err
	}
	if color < 0 {
		if sub != nil {
			return fmt.Errorf("a split with color %d returns a Comm", color)
		}
		return c.Barrier(ctx)
	}
	var want []uint64
	for rank := c.Size() - 1; rank >= 0; rank-- {
		if rank%3 == color {
			want = append(want, uint64(rank))
		}
	}
	got, err := members(ctx, sub, c.Rank())
	if err != nil {
		return err
	}
	if place := slices.Index(want, uint64(c.Rank())); !slices.Equal(got, want) || sub.Rank() != place || sub.Size() != len(want) {
		return fmt.Errorf("a split: ranks %d, this one is %d of %d; want %d, this one is %d", got, sub.Rank(), sub.Size(), want, place)
	}
	if err := allToAllV(ctx, sub); err != nil {
		return fmt.Errorf("in a group of Split: %w", err)
	}
	if err := sub.Close(); err != nil {
		return err
	}
	if err := sub.Close(); err != nil {
		return fmt.Errorf("second Close: %w", err)
	}
	if err := sub.Barrier(ctx); !errors.Is(err, device.ErrClosed) {
		return fmt.Errorf("a barrier after Close returns %v", err)
	}
	return c.Barrier(ctx)
}

// splitAlongside makes groups call different methods at the same time, and splits a group that
// Split made.
func splitAlongside(ctx context.Context, c comm.Comm) error {
	half, err := c.Split(ctx, c.Rank()%2, 0)
	if err != nil {
		return err
	}
	pair, err := half.Split(ctx, half.Rank()/2, 0)
	if err != nil {
		return err
	}
	for i := range 5 * (1 + c.Rank()%2) {
		sum := []uint64{uint64(i)}
		if err := pair.AllReduce(ctx, comm.Sum, sum); err != nil {
			return err
		}
		if sum[0] != uint64(i*pair.Size()) {
			return fmt.Errorf("AllReduce in a pair returns %d, want %d", sum[0], i*pair.Size())
		}
		if err := half.Barrier(ctx); err != nil {
			return err
		}
	}
	if err := c.Barrier(ctx); err != nil {
		return err
	}
	return errors.Join(pair.Close(), half.Close())
}
