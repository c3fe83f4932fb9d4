package nccl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/commtest"
	"github.com/weftgo/weft/mpi/comm/internal/gputest"
	"github.com/weftgo/weft/mpi/comm/local"
	"github.com/weftgo/weft/mpi/comm/nccl"
)

// engine returns the engine that uses a library.
func engine(library string) gputest.Engine {
	return func(ctx context.Context, base comm.Comm, dev device.Device) (comm.Comm, error) {
		return nccl.New(ctx, base, dev, &nccl.Options{Library: library})
	}
}

// TestConformance runs exchanges in one round and in several.
func TestConformance(t *testing.T) {
	engine := engine(gputest.Stub(t))
	for _, test := range []struct{ size, bound int }{{1, 512 << 20}, {2, 512 << 20}, {7, 512 << 20}, {2, 100_000}, {5, 100_000}} {
		t.Run(fmt.Sprintf("%d in %d", test.size, test.bound), func(t *testing.T) {
			defer nccl.SetMaxBytes(nccl.SetMaxBytes(test.bound))
			gputest.Suite(t, gputest.Hosts(t, test.size), engine)
		})
	}
}

func TestAbort(t *testing.T) { commtest.Abort(t, gputest.Open(t, engine(gputest.Stub(t)))) }

// TestFailures makes NCCL fail on rank 0, which submits no work, and on all ranks while they wait.
func TestFailures(t *testing.T) {
	engine := engine(gputest.Stub(t))
	for n, text := range map[int]string{
		gputest.Fails: "nccl: ncclSend: stub error (4)",
		gputest.Hangs: "nccl: ncclCommGetAsyncError: a peer is gone (6)",
	} {
		begin := time.Now()
		err := gputest.Run(t.Context(), gputest.Hosts(t, 3), engine, func(ctx context.Context, c comm.Comm, dev device.Device) error {
			return gputest.Exchange(ctx, c, dev, n)
		})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("an exchange of %d bytes returns %v, want %q", n, err, text)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("ranks return after %v", took)
		}
	}
}

// TestNewFails opens no NCCL on one rank, and expects New to fail on all ranks.
func TestNewFails(t *testing.T) {
	library := gputest.Stub(t)
	devices := gputest.Hosts(t, 3)
	err := local.Run(t.Context(), 3, func(ctx context.Context, base comm.Comm) error {
		own := library
		if base.Rank() == 1 {
			own = "libnothing.so"
		}
		_, err := engine(own)(ctx, base, devices[base.Rank()])
		if base.Rank() == 1 && (err == nil || !strings.Contains(err.Error(), "WEFT_NCCL_LIBRARY")) {
			return fmt.Errorf("New without a library returns %w", err)
		}
		if base.Rank() != 1 && !errors.Is(err, comm.ErrPeer) {
			return fmt.Errorf("New of a rank with a library returns %w", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestOtherDevice expects New to return an error for a device that is not a GPU.
func TestOtherDevice(t *testing.T) {
	dev := gputest.Hosts(t, 1)[0]
	if _, err := nccl.New(t.Context(), local.New(1)[0], dev, nil); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("New for a device of kind %s returns %v", dev.Properties().Kind, err)
	}
}

func TestGPUs(t *testing.T) { gputest.Suite(t, gputest.GPUs(t), engine("")) }

func BenchmarkGPUs(b *testing.B) { gputest.Rate(b, engine("")) }
