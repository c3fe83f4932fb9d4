// Package gputest contains common parts of tests for GPU engines: a substitute for NCCL and the
// CUDA driver, and access to the GPUs of the machine.
package gputest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/cuda"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/commtest"
	"github.com/weftgo/weft/mpi/comm/internal/gpu"
	"github.com/weftgo/weft/mpi/comm/local"
)

//go:embed testdata/stub.c
var source []byte

// The substitute fails for messages of Fails bytes, and hangs for messages of Hangs bytes. See
// testdata/stub.c.
const Fails, Hangs = 66666, 77777

// Stub compiles the substitute and returns the path of the library. Until the test ends, engines
// use it as the CUDA driver, and treat memory of devices of package device/cpu as GPU memory.
// Without a C compiler it skips the test.
func Stub(t *testing.T) string {
	compiler := ""
	for _, name := range []string{"cc", "gcc", "clang", "clang-19"} {
		if path, err := exec.LookPath(name); err == nil {
			compiler = path
			break
		}
	}
	if compiler == "" {
		t.Skip("no C compiler, which the stand-in for NCCL needs")
	}
	folder := t.TempDir()
	file, path := filepath.Join(folder, "stub.c"), filepath.Join(folder, "libstub.so")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, "-shared", "-fPIC", "-O1", "-o", path, file, "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	library, kind := gpu.Library, gpu.Kind
	gpu.Library, gpu.Kind = path, device.CPU
	t.Cleanup(func() { gpu.Library, gpu.Kind = library, kind })
	return path
}

// Engine makes a Comm that exchanges memory of a device.
type Engine func(ctx context.Context, base comm.Comm, dev device.Device) (comm.Comm, error)

// Body is the part of a test that each rank runs.
type Body func(ctx context.Context, c comm.Comm, dev device.Device) error

// Hosts opens n CPU devices, which the substitute treats as GPUs.
func Hosts(t *testing.T, n int) []device.Device {
	devices := make([]device.Device, n)
	for i := range devices {
		dev, err := cpu.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		devices[i] = dev
	}
	return devices
}

// GPUs opens all GPUs of the machine. Without a GPU it skips the test.
func GPUs(t testing.TB) (devices []device.Device) {
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

// Run runs body on one rank per device.
func Run(ctx context.Context, devices []device.Device, engine Engine, body Body) error {
	return local.Run(ctx, len(devices), func(ctx context.Context, base comm.Comm) error {
		dev := devices[base.Rank()]
		c, err := engine(ctx, base, dev)
		if err != nil {
			return err
		}
		return errors.Join(body(ctx, c, dev), c.Close())
	})
}

// Suite runs the tests of package commtest, and exchanges memory of the devices.
func Suite(t *testing.T, devices []device.Device, engine Engine) {
	run := func(t *testing.T, body Body) {
		if err := Run(t.Context(), devices, engine, body); err != nil {
			t.Error(err)
		}
	}
	commtest.Run(t, func(t *testing.T, body commtest.Body) {
		run(t, func(ctx context.Context, c comm.Comm, _ device.Device) error { return body(ctx, c) })
	})
	t.Run("Exchange", func(t *testing.T) {
		run(t, func(ctx context.Context, c comm.Comm, dev device.Device) error {
			for _, n := range []int{0, 1, 1000, 1_000_001} {
				if err := Exchange(ctx, c, dev, n); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Exchange sends a part of n bytes from device memory to each rank, and one byte more to rank 0. It
// checks the received bytes.
func Exchange(ctx context.Context, c comm.Comm, dev device.Device, n int) error {
	stream, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	sent, sendBytes, recvBytes := []byte{}, make([]int64, c.Size()), make([]int64, c.Size())
	for peer := range sendBytes {
		sendBytes[peer], recvBytes[peer] = int64(length(n, peer)), int64(length(n, c.Rank()))
		for range sendBytes[peer] {
			sent = append(sent, byte(peer*16+c.Rank()))
		}
	}
	send, err := device.Upload(stream, sent)
	if err != nil {
		return err
	}
	defer send.Free()
	got := make([]byte, c.Size()*length(n, c.Rank()))
	recv, err := device.Make[byte](dev, len(got))
	if err != nil {
		return err
	}
	defer recv.Free()
	if err := c.AllToAllV(ctx, comm.Buf{On: send, Stream: stream}, sendBytes, comm.Buf{On: recv, Stream: stream}, recvBytes); err != nil {
		return err
	}
	if err := recv.CopyTo(ctx, stream, got); err != nil {
		return err
	}
	for i, v := range got {
		if want := byte(c.Rank()*16 + i/length(n, c.Rank())); v != want {
			return fmt.Errorf("exchange of %d bytes: byte %d is %d, want %d", n, i, v, want)
		}
	}
	return nil
}

// length returns the length of the part that each rank sends to a peer.
func length(n, peer int) int {
	if peer == 0 {
		return n + 1
	}
	return n
}

// Rate is a benchmark that exchanges 512 MiB per GPU in each round. The reported rate counts the
// bytes that a GPU sends to other GPUs.
func Rate(b *testing.B, engine Engine) {
	devices := GPUs(b)
	if len(devices) == 1 {
		b.Skip("one GPU")
	}
	err := Run(b.Context(), devices, engine, func(ctx context.Context, c comm.Comm, dev device.Device) error {
		stream, err := dev.NewStream()
		if err != nil {
			return err
		}
		defer stream.Close()
		part := 512 << 20 / c.Size()
		mem, err := device.Make[byte](dev, 2*part*c.Size())
		if err != nil {
			return err
		}
		defer mem.Free()
		half := mem.Len() / 2
		send, recv := comm.Buf{On: mem.Sub(0, half), Stream: stream}, comm.Buf{On: mem.Sub(half, 2*half), Stream: stream}
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
			if err := c.AllToAllV(ctx, send, parts, recv, parts); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			b.ReportMetric(float64(b.N*part*(c.Size()-1))/time.Since(begin).Seconds()/1e9, "GB/s")
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// Open returns a function that makes a group of n ranks, each with a CPU device.
func Open(t *testing.T, engine Engine) func(n int) []comm.Comm {
	return func(n int) []comm.Comm {
		devices, ranks := Hosts(t, n), local.New(n)
		made := make(chan error)
		for i, base := range ranks {
			go func() {
				c, err := engine(t.Context(), base, devices[i])
				ranks[i] = c
				made <- err
			}()
		}
		for range ranks {
			if err := <-made; err != nil {
				t.Fatal(err)
			}
		}
		return ranks
	}
}
