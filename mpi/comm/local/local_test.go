package local_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/commtest"
	"github.com/weftgo/weft/mpi/comm/local"
)

func TestConformance(t *testing.T) {
	for _, size := range []int{1, 2, 7, 64} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			commtest.Run(t, func(t *testing.T, body commtest.Body) {
				if err := local.Run(t.Context(), size, body); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAbort(t *testing.T) { commtest.Abort(t, local.New) }

// TestRun makes one rank fail in several ways while the others wait. Run must return the reason.
func TestRun(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		name, text string
		fail       func(ctx context.Context, c comm.Comm) error
	}{
		{"error", "rank 3: broken", func(context.Context, comm.Comm) error { return broken }},
		{"panic", "rank 3: panic: oops", func(context.Context, comm.Comm) error { panic("oops") }},
		{"exit", "rank 3: its goroutine exited", func(context.Context, comm.Comm) error { runtime.Goexit(); return nil }},
		{"return", "different methods", func(context.Context, comm.Comm) error { return nil }},
		{"abort", "aborted", func(ctx context.Context, c comm.Comm) error { c.Abort(1); return c.Barrier(ctx) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := local.Run(t.Context(), 5, func(ctx context.Context, c comm.Comm) error {
				if c.Rank() == 3 {
					return test.fail(ctx, c)
				}
				err := c.Barrier(ctx)
				if err == nil {
					t.Errorf("rank %d: Barrier returns nil", c.Rank())
				}
				<-ctx.Done()
				return err
			})
			if err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("Run returns %v, want %q", err, test.text)
			}
		})
	}
}

// TestRunEndedContext calls Run with an ended context. Ranks must return the error of the context.
func TestRunEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := local.Run(ctx, 3, func(ctx context.Context, c comm.Comm) error { return c.Barrier(ctx) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run returns %v", err)
	}
}

// TestManyRanks runs as many ranks as GPUs that hold 10^12 keys.
func TestManyRanks(t *testing.T) {
	const size = 168
	err := local.Run(t.Context(), size, func(ctx context.Context, c comm.Comm) error {
		for range 10 {
			sum := []uint64{uint64(c.Rank())}
			if err := c.AllReduce(ctx, comm.Sum, sum); err != nil {
				return err
			}
			if sum[0] != size*(size-1)/2 {
				return fmt.Errorf("AllReduce returns %d", sum[0])
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// BenchmarkAllToAllV exchanges 64 MiB between two ranks. The rate counts all bytes that a rank
// sends, including the half that it sends to itself.
func BenchmarkAllToAllV(b *testing.B) {
	const size, part = 2, 32 << 20
	b.SetBytes(size * part)
	err := local.Run(b.Context(), size, func(ctx context.Context, c comm.Comm) error {
		send, recv := comm.Host(make([]byte, size*part)), comm.Host(make([]byte, size*part))
		parts := []int64{part, part}
		for range b.N {
			if err := c.AllToAllV(ctx, send, parts, recv, parts); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
