package commtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/mpi/comm"
)

// calls returns, for each collective method, a call with valid arguments.
func calls(c comm.Comm) map[string]func(ctx context.Context) error {
	none := make([]int64, c.Size())
	return map[string]func(ctx context.Context) error{
		"Barrier":        c.Barrier,
		"AllGather":      func(ctx context.Context) error { return c.AllGather(ctx, make([]uint64, 1), make([]uint64, c.Size())) },
		"AllReduce":      func(ctx context.Context) error { return c.AllReduce(ctx, comm.Sum, make([]uint64, 2)) },
		"AllReduceFloat": func(ctx context.Context) error { return c.AllReduceFloat(ctx, comm.Min, make([]float64, 2)) },
		"AllToAllV":      func(ctx context.Context) error { return c.AllToAllV(ctx, comm.Buf{}, none, comm.Buf{}, none) },
		"Split":          func(ctx context.Context) error { _, err := c.Split(ctx, -1, 0); return err },
	}
}

// methods lists the names of calls, in the order in which all ranks make them.
var methods = []string{"Barrier", "AllGather", "AllReduce", "AllReduceFloat", "AllToAllV", "Split"}

// endedContext calls each method with an ended context on one rank.
func endedContext(ctx context.Context, c comm.Comm) error {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	calls := calls(c)
	for i, name := range methods {
		odd := i % c.Size()
		with, want := ctx, comm.ErrPeer
		if c.Rank() == odd {
			with, want = ended, context.Canceled
		}
		if err := calls[name](with); !errors.Is(err, want) {
			return fmt.Errorf(
				"%s with an ended context on rank %d returns %v, want %v",
				name,
				odd,
				err,
				want,
			)
		}
		// The group still works.
		if err := calls[name](ctx); err != nil {
			return fmt.Errorf("%s after an ended context: %w", name, err)
		}
	}
	return nil
}

// wrongArguments calls each method with wrong arguments on one rank.
func wrongArguments(ctx context.Context, c comm.Comm) error {
	parts, words := make([]int64, c.Size()), make([]uint64, 7)
	wrong := map[string]func() error{
		"AllGather":      func() error { return c.AllGather(ctx, words[:1], make([]uint64, c.Size()+1)) },
		"AllReduce":      func() error { return c.AllReduce(ctx, comm.Max+1, words) },
		"AllReduceFloat": func() error { return c.AllReduceFloat(ctx, comm.Max+1, make([]float64, 1)) },
		"AllToAllV": func() error {
			return c.AllToAllV(
				ctx,
				comm.Host(make([]byte, 3)),
				append([]int64{4}, parts[1:]...),
				comm.Buf{},
				parts,
			)
		},
		"Split": func() error { _, err := c.Split(ctx, 0, 1<<40); return err },
	}
	calls := calls(c)
	for i, name := range methods[1:] {
		odd := i % c.Size()
		call := func() error { return calls[name](ctx) }
		if c.Rank() == odd {
			call = wrong[name]
		}
		err := call()
		if err == nil || (c.Rank() == odd) == errors.Is(err, comm.ErrPeer) {
			return fmt.Errorf("%s with wrong arguments on rank %d returns %v", name, odd, err)
		}
		if err := calls[name](ctx); err != nil {
			return fmt.Errorf("%s after wrong arguments: %w", name, err)
		}
	}
	return nil
}

// disagreement makes one rank call another method, or pass arguments that do not match those of the
// other ranks.
func disagreement(ctx context.Context, c comm.Comm) error {
	if c.Size() == 1 {
		return nil
	}
	last := c.Rank() == c.Size()-1
	n := 2
	if last {
		n = 3
	}
	parts := make([]int64, c.Size())
	if last {
		parts[0] = 1
	}
	none := make([]int64, c.Size())
	method := c.Barrier
	if last {
		method = calls(c)["AllToAllV"]
	}
	for _, test := range []struct {
		name string
		call func() error
	}{
		{"other methods", func() error { return method(ctx) }},
		{"AllGather of other lengths", func() error { return c.AllGather(ctx, make([]uint64, n), make([]uint64, n*c.Size())) }},
		{"AllReduce of other lengths", func() error { return c.AllReduce(ctx, comm.Sum, make([]uint64, n)) }},
		{"AllReduce by other operations", func() error { return c.AllReduce(ctx, comm.Op(n-2), make([]uint64, 1)) }},
		{"AllToAllV of parts that no peer expects", func() error {
			return c.AllToAllV(ctx, comm.Host(make([]byte, 1)), parts, comm.Buf{}, none)
		}},
		{"AllToAllV of parts that no peer sends", func() error {
			return c.AllToAllV(ctx, comm.Buf{}, none, comm.Host(make([]byte, 1)), parts)
		}},
	} {
		if err := test.call(); err == nil || errors.Is(err, comm.ErrAborted) {
			return fmt.Errorf("%s: error %v", test.name, err)
		}
		if err := c.Barrier(ctx); err != nil {
			return fmt.Errorf("a barrier after %s: %w", test.name, err)
		}
	}
	return nil
}
