package peer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/commtest"
	"github.com/weftgo/weft/mpi/comm/internal/gputest"
	"github.com/weftgo/weft/mpi/comm/local"
	"github.com/weftgo/weft/mpi/comm/peer"
)

func TestConformance(t *testing.T) {
	gputest.Stub(t)
	for _, size := range []int{1, 2, 7} {
		t.Run(fmt.Sprint(size), func(t *testing.T) { gputest.Suite(t, gputest.Hosts(t, size), peer.New) })
	}
}

// TestShared has several ranks on one device.
func TestShared(t *testing.T) {
	gputest.Stub(t)
	dev := gputest.Hosts(t, 1)[0]
	gputest.Suite(t, []device.Device{dev, dev, dev}, peer.New)
}

func TestAbort(t *testing.T) {
	gputest.Stub(t)
	commtest.Abort(t, gputest.Open(t, peer.New))
}

// TestFailure has a copy fail.
func TestFailure(t *testing.T) {
	gputest.Stub(t)
	err := gputest.Run(t.Context(), gputest.Hosts(t, 3), peer.New, func(ctx context.Context, c comm.Comm, dev device.Device) error {
		return gputest.Exchange(ctx, c, dev, gputest.Fails)
	})
	if err == nil || !strings.Contains(err.Error(), "peer: cuMemcpyPeerAsync fails with CUDA error 201") {
		t.Errorf("an exchange that fails returns %v", err)
	}
}

// other is a Comm of another package.
type other struct{ comm.Comm }

func TestNewFails(t *testing.T) {
	dev := gputest.Hosts(t, 1)[0]
	if _, err := peer.New(t.Context(), local.New(1)[0], dev); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("New for a device of kind %s returns %v", dev.Properties().Kind, err)
	}
	_, err := peer.New(t.Context(), other{local.New(1)[0]}, dev)
	if err == nil || !strings.Contains(err.Error(), "not those of package local") {
		t.Errorf("New of another engine returns %v", err)
	}
}

func TestGPUs(t *testing.T) {
	devices := gputest.GPUs(t)
	gputest.Suite(t, devices, peer.New)
	t.Run("Shared", func(t *testing.T) { gputest.Suite(t, append(devices, devices...), peer.New) })
}

func BenchmarkGPUs(b *testing.B) { gputest.Rate(b, peer.New) }
