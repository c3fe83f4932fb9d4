// Package commtest contains tests for the engines of a [comm.Comm].
package commtest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weftgo/weft/mpi/comm"
)

// Body is the part of a test that each rank runs. It returns an error if the test fails.
type Body func(ctx context.Context, c comm.Comm) error

// Launch calls body concurrently for each rank of this process. It fails the test if a body returns
// an error. An engine with a process per rank calls body once in each process. No call is in
// progress before or after body.
type Launch func(t *testing.T, body Body)

// Run runs all tests on an engine.
func Run(t *testing.T, launch Launch) {
	for _, test := range []struct {
		name string
		body Body
	}{
		{"Barrier", barrier},
		{"AllGather", allGather},
		{"AllReduce", allReduce},
		{"AllReduceFloat", allReduceFloat},
		{"AllToAllV", allToAllV},
		{"AllToAllVOnDevices", allToAllVOnDevices},
		{"Split", split},
		{"SplitAlongside", splitAlongside},
		{"EndedContext", endedContext},
		{"WrongArguments", wrongArguments},
		{"Disagreement", disagreement},
	} {
		t.Run(test.name, func(t *testing.T) { launch(t, test.body) })
	}
}

// barrier tests that no rank leaves a barrier before a delayed rank has entered it. It compares
// clocks, so all ranks must be on one machine.
func barrier(ctx context.Context, c comm.Comm) error {
	came := make([]uint64, c.Size())
	for last := range min(c.Size(), 3) {
		if c.Rank() == last {
			time.Sleep(10 * time.Millisecond)
		}
		own := []uint64{uint64(time.Now().UnixNano())}
		if err := c.Barrier(ctx); err != nil {
			return err
		}
		left := uint64(time.Now().UnixNano())
		if err := c.AllGather(ctx, own, came); err != nil {
			return err
		}
		if latest := slices.Max(came); left < latest {
			return fmt.Errorf("a barrier lets a rank pass %d ns before the last one comes", latest-left)
		}
	}
	return nil
}

func allGather(ctx context.Context, c comm.Comm) error {
	for _, n := range []int{0, 1, 3, 1000} {
		send, recv := make([]uint64, n), make([]uint64, n*c.Size())
		for i := range send {
			send[i] = mix(c.Rank(), i)
		}
		if err := c.AllGather(ctx, send, recv); err != nil {
			return err
		}
		for at, v := range recv {
			if want := mix(at/n, at%n); v != want {
				return fmt.Errorf("AllGather of %d values: recv[%d] is %d, want %d", n, at, v, want)
			}
		}
	}
	return nil
}

// uints and floats combine two values as AllReduce does.
var (
	uints = [...]func(a, b uint64) uint64{
		comm.Sum: func(a, b uint64) uint64 { return a + b },
		comm.Min: func(a, b uint64) uint64 { return min(a, b) },
		comm.Max: func(a, b uint64) uint64 { return max(a, b) },
	}
	floats = [...]func(a, b float64) float64{
		comm.Sum: func(a, b float64) float64 { return a + b },
		comm.Min: func(a, b float64) float64 { return min(a, b) },
		comm.Max: func(a, b float64) float64 { return max(a, b) },
	}
)

func allReduce(ctx context.Context, c comm.Comm) error {
	for _, n := range []int{0, 1, 5, 3000} {
		for op, combine := range uints {
			values, want := make([]uint64, n), make([]uint64, n)
			for i := range values {
				values[i], want[i] = mix(c.Rank(), i), mix(0, i)
				for rank := 1; rank < c.Size(); rank++ {
					want[i] = combine(want[i], mix(rank, i))
				}
			}
			if err := c.AllReduce(ctx, comm.Op(op), values); err != nil {
				return err
			}
			if !slices.Equal(values, want) {
				return fmt.Errorf("AllReduce of %d values by %s returns other values than the model", n, comm.Op(op))
			}
		}
	}
	return nil
}

// allReduceFloat expects the bits that result from combining values in the order of ranks.
func allReduceFloat(ctx context.Context, c comm.Comm) error {
	value := func(rank, i int) float64 { return float64(mix(rank, i)) / 3 }
	for _, n := range []int{0, 1, 7, 8192/c.Size() + 7} {
		for op, combine := range floats {
			values, want := make([]float64, n), make([]float64, n)
			for i := range values {
				values[i], want[i] = value(c.Rank(), i), value(0, i)
				for rank := 1; rank < c.Size(); rank++ {
					want[i] = combine(want[i], value(rank, i))
				}
			}
			if err := c.AllReduceFloat(ctx, comm.Op(op), values); err != nil {
				return err
			}
			if !slices.Equal(values, want) {
				return fmt.Errorf("AllReduceFloat of %d values by %s returns other bits than the model", n, comm.Op(op))
			}
		}
	}
	return nil
}

// mix returns a number that is different for each pair a, b.
func mix(a, b int) uint64 {
	x := uint64(a)*0x9e3779b97f4a7c15 + uint64(b)*0xd1342543de82ef95 + 1
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return x ^ x>>29
}
