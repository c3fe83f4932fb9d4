package nccl_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cuda"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/commtest"
	"github.com/weftgo/weft/mpi/comm/local"
	"github.com/weftgo/weft/mpi/comm/nccl"
)

// gpus opens the GPUs of this machine.
func gpus(t testing.TB) (devices []device.Device) {
	for {
		dev, err := cuda.Open(len(devices))
		if err != nil && len(devices) == 0 {
			t.Skip(err)
		}
		if err != nil {
			return devices
		}
		t.Cleanup(func() { dev.Close() })
		devices = append(devices, dev)
	}
}

// runGPUs runs a body on a rank for each GPU.
func runGPUs(t testing.TB, devices []device.Device, body func(ctx context.Context, c comm.Comm, dev device.Device) error) {
	err := local.Run(t.Context(), len(devices), func(ctx context.Context, base comm.Comm) error {
		dev := devices[base.Rank()]
		c, err := nccl.New(ctx, base, dev, nil)
		if err != nil {
			return err
		}
		return errors.Join(body(ctx, c, dev), c.Close())
	})
	if err != nil {
		t.Error(err)
	}
}

// TestGPUs runs the tests of all engines, and exchanges through NCCL.
func TestGPUs(t *testing.T) {
	devices := gpus(t)
	t.Logf("%d GPUs", len(devices))
	commtest.Run(t, func(t *testing.T, body commtest.Body) {
		runGPUs(t, devices, func(ctx context.Context, c comm.Comm, _ device.Device) error { return body(ctx, c) })
	})
	runGPUs(t, devices, func(ctx context.Context, c comm.Comm, dev device.Device) error {
		for _, n := range []int{1, 1000, 10_000_001} {
			if err := exchange(ctx, c, dev, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// BenchmarkGPUs exchanges 512 MiB between all GPUs. The rate is of what a GPU sends to others.
func BenchmarkGPUs(b *testing.B) {
	devices := gpus(b)
	if len(devices) == 1 {
		b.Skip("one GPU")
	}
	runGPUs(b, devices, func(ctx context.Context, c comm.Comm, dev device.Device) error {
		stream, err := dev.NewStream()
		if err != nil {
			return err
		}
		defer stream.Close()
		part := 512 << 20 / c.Size()
		send, err := device.Make[byte](dev, part*c.Size())
		if err != nil {
			return err
		}
		defer send.Free()
		recv, err := device.Make[byte](dev, part*c.Size())
		if err != nil {
			return err
		}
		defer recv.Free()
		parts := make([]int64, c.Size())
		for peer := range parts {
			parts[peer] = int64(part)
		}
		parts[c.Rank()] = 0
		var begin time.Time
		for round := range b.N + 2 {
			if round == 2 {
				begin = time.Now()
			}
			err := c.AllToAllV(ctx, comm.Buf{On: send, Stream: stream}, parts, comm.Buf{On: recv, Stream: stream}, parts)
			if err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			b.ReportMetric(float64(b.N*part*(c.Size()-1))/time.Since(begin).Seconds()/1e9, "GB/s")
		}
		return nil
	})
}
