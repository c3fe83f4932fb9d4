package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/gpu"
	"github.com/weftgo/weft/mpi/comm/internal/gputest"
	"github.com/weftgo/weft/mpi/comm/local"
)

func TestOpen(t *testing.T) {
	dev := gputest.Hosts(t, 1)[0]
	if _, err := gpu.Open(dev); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("Open of a device of the host returns %v", err)
	}
	library := gputest.Stub(t)
	g, err := gpu.Open(dev)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if g.Context == 0 || g.Stream == 0 {
		t.Errorf("context %#x, stream %#x", g.Context, g.Stream)
	}
	gpu.Library = "libnothing.so"
	if _, err := gpu.Open(dev); err == nil || !strings.Contains(err.Error(), "the CUDA driver does not open") {
		t.Errorf("Open without a driver returns %v", err)
	}
	err = gpu.Resolve(library, []string{"cuStreamQuery", "cuNothing"}, make([]uintptr, 2))
	if err == nil || !strings.Contains(err.Error(), "has no function cuNothing") {
		t.Errorf("Resolve of a function that is absent returns %v", err)
	}
}

// TestWait waits for a stream without work, on the thread of the GPU.
func TestWait(t *testing.T) {
	gputest.Stub(t)
	g, err := gpu.Open(gputest.Hosts(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.Thread.Do(func() { err = g.Wait(func() error { return nil }, nil) })
	if err != nil || g.Context == 0 || g.Stream == 0 {
		t.Errorf("context %#x, stream %#x, %v", g.Context, g.Stream, err)
	}
}

// TestAgree gathers words, first without an error and then with an error on one rank.
func TestAgree(t *testing.T) {
	broken := errors.New("broken")
	err := local.Run(t.Context(), 3, func(ctx context.Context, base comm.Comm) error {
		words := []uint64{uint64(base.Rank()), 7}
		all, err := gpu.Agree(ctx, base, words, nil)
		if err != nil || !slices.Equal(all, []uint64{0, 7, 1, 7, 2, 7}) {
			return fmt.Errorf("Agree returns %d, %w", all, err)
		}
		want := comm.ErrPeer
		var own error
		if base.Rank() == 1 {
			want, own = broken, broken
		}
		if _, err := gpu.Agree(ctx, base, words, own); !errors.Is(err, want) {
			return fmt.Errorf("Agree with an error on rank 1 returns %w", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// forever is a transport in which exchanges last until the group is aborted.
type forever struct {
	gpu.Transport
	aborted <-chan struct{}
}

func (f forever) Exchange(*gpu.Parts) error {
	<-f.aborted
	return comm.ErrAborted
}

func (f forever) Close(aborted bool) error {
	if !aborted {
		return errors.New("the transport closes as if nothing had happened")
	}
	return nil
}

// TestFailedExchange makes exchanges fail. Later calls must fail immediately, and Close must not
// wait for other ranks.
func TestFailedExchange(t *testing.T) {
	dev := gputest.Hosts(t, 1)[0]
	begin := time.Now()
	err := local.Run(t.Context(), 2, func(ctx context.Context, base comm.Comm) error {
		r := &gpu.Rank{Comm: base, Device: dev, Transport: forever{aborted: gpu.Aborted(base)}}
		if base.Rank() == 0 {
			time.AfterFunc(20*time.Millisecond, func() { r.Abort(1) })
		}
		parts := make([]int64, 2)
		for range 2 {
			if err := r.AllToAllV(ctx, comm.Buf{}, parts, comm.Buf{}, parts); !errors.Is(err, comm.ErrAborted) {
				return fmt.Errorf("AllToAllV returns %w", err)
			}
		}
		return r.Close()
	})
	if err != nil || time.Since(begin) > time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
}
