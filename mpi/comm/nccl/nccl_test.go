package nccl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/commtest"
	"github.com/weftgo/weft/mpi/comm/local"
	"github.com/weftgo/weft/mpi/comm/nccl"
)

// stub compiles the stand-in for NCCL and opens it in place of the library.
func stub(t *testing.T) *nccl.Options {
	compiler := ""
	for _, name := range []string{"cc", "gcc", "clang", "clang-19"} {
		if path, err := exec.LookPath(name); err == nil {
			compiler = path
			break
		}
	}
	if compiler == "" {
		t.Skip("no C compiler, which the stub of NCCL needs")
	}
	library := filepath.Join(t.TempDir(), "libnccl.so.2")
	out, err := exec.Command(compiler, "-shared", "-fPIC", "-O1", "-o", library, "testdata/stub.c", "-lpthread").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(nccl.UseStub(library))
	return &nccl.Options{Library: library}
}

// run runs a body on ranks with a GPU each, which is a device of the host.
func run(t *testing.T, size int, opts *nccl.Options, body func(ctx context.Context, c comm.Comm, dev device.Device) error) error {
	return local.Run(t.Context(), size, func(ctx context.Context, base comm.Comm) error {
		dev, err := cpu.Open(nil)
		if err != nil {
			return err
		}
		defer dev.Close()
		c, err := nccl.New(ctx, base, dev, opts)
		if err != nil {
			return err
		}
		return errors.Join(body(ctx, c, dev), c.Close())
	})
}

func TestConformance(t *testing.T) {
	opts := stub(t)
	for _, size := range []int{1, 2, 7} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			commtest.Run(t, func(t *testing.T, body commtest.Body) {
				err := run(t, size, opts, func(ctx context.Context, c comm.Comm, _ device.Device) error { return body(ctx, c) })
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// exchange sends parts of n bytes from memory of a device to all ranks, and checks what arrives.
func exchange(ctx context.Context, c comm.Comm, dev device.Device, n int) error {
	stream, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	data, parts := make([]byte, n*c.Size()), make([]int64, c.Size())
	for i := range data {
		data[i] = byte(i/n*16 + c.Rank())
	}
	for i := range parts {
		parts[i] = int64(n)
	}
	send, err := device.Upload(stream, data)
	if err != nil {
		return err
	}
	defer send.Free()
	recv, err := device.Make[byte](dev, len(data))
	if err != nil {
		return err
	}
	defer recv.Free()
	err = c.AllToAllV(ctx, comm.Buf{On: send, Stream: stream}, parts, comm.Buf{On: recv, Stream: stream}, parts)
	if err != nil {
		return err
	}
	if err := recv.CopyTo(ctx, stream, data); err != nil {
		return err
	}
	for i, v := range data {
		if want := byte(c.Rank()*16 + i/n); v != want {
			return fmt.Errorf("byte %d is %d, want %d", i, v, want)
		}
	}
	return nil
}

// TestExchange exchanges through NCCL in one round and in many.
func TestExchange(t *testing.T) {
	opts := stub(t)
	for _, bound := range []int{1 << 20, 100} {
		nccl.SetMaxBytes(bound)
		for _, size := range []int{1, 2, 5} {
			err := run(t, size, opts, func(ctx context.Context, c comm.Comm, dev device.Device) error {
				return errors.Join(exchange(ctx, c, dev, 1), exchange(ctx, c, dev, 1000))
			})
			if err != nil {
				t.Errorf("%d ranks in rounds of %d bytes: %v", size, bound, err)
			}
		}
	}
}

// TestFailures has NCCL fail: on rank 0, which submits no work for which the others wait, and on all
// ranks while they wait.
func TestFailures(t *testing.T) {
	const fails, hangs = 66666, 77777 // as in the stub
	opts := stub(t)
	for n, text := range map[int]string{
		fails: "nccl: ncclSend: stub error (4)",
		hangs: "nccl: ncclCommGetAsyncError: a peer is gone (6)",
	} {
		begin := time.Now()
		err := run(t, 3, opts, func(ctx context.Context, c comm.Comm, dev device.Device) error {
			return exchange(ctx, c, dev, n)
		})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("an exchange of %d bytes returns %v, want %q", n, err, text)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("ranks return after %v", took)
		}
	}
}

func TestAbort(t *testing.T) {
	opts := stub(t)
	commtest.Abort(t, func(n int) []comm.Comm {
		ranks := local.New(n)
		var group sync.WaitGroup
		for i, base := range ranks {
			group.Go(func() {
				dev, err := cpu.Open(nil)
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { dev.Close() })
				if ranks[i], err = nccl.New(t.Context(), base, dev, opts); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		return ranks
	})
}

// TestNewFails has one rank without NCCL: New fails on all.
func TestNewFails(t *testing.T) {
	opts := stub(t)
	err := local.Run(t.Context(), 3, func(ctx context.Context, base comm.Comm) error {
		dev, err := cpu.Open(nil)
		if err != nil {
			return err
		}
		defer dev.Close()
		own := *opts
		if base.Rank() == 1 {
			own.Library = "libnothing.so"
		}
		_, err = nccl.New(ctx, base, dev, &own)
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

// TestOtherDevice has New refuse a device that is no GPU.
func TestOtherDevice(t *testing.T) {
	dev, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	_, err = nccl.New(t.Context(), local.New(1)[0], dev, nil)
	if !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("New for a device of kind %s returns %v", dev.Properties().Kind, err)
	}
}

func TestMain(m *testing.M) {
	os.Unsetenv("WEFT_NCCL_LIBRARY")
	os.Exit(m.Run())
}
