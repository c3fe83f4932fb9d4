package gphash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/op"
)

// slowMapping makes GPUs wait while they map a pool, until finish makes them continue or fail.
func slowMapping(t *testing.T) (finish func(error)) {
	was, gate := mapTo, make(chan error)
	t.Cleanup(func() { mapTo = was })
	mapTo = func(ctx context.Context, dev device.Device, host []byte) (device.Buffer, func() error, error) {
		select {
		case err := <-gate:
			if err != nil {
				return device.Buffer{}, nil, err
			}
		case <-ctx.Done():
			return device.Buffer{}, nil, ctx.Err()
		}
		return was(ctx, dev, host)
	}
	return func(err error) { gate <- err }
}

// hostFirst is a pool left by a crash. The host works on it while a GPU maps it.
type hostFirst struct {
	path  string
	dev   device.Device
	x     *Index
	model map[string][]byte
}

func openHostFirst(t *testing.T, o Options) *hostFirst {
	h := &hostFirst{path: filepath.Join(memoryDir(t), "pool"), model: map[string][]byte{}}
	o.KeySize, o.ValueSize, o.Capacity, o.Size = 8, 24, 20, smallPool
	x, err := Create(h.path, openCPU(t), o)
	must(t, err)
	program(t, x, h.model, 5)
	left := h.copied(t)
	must(t, errors.Join(x.Close(), os.Rename(left, h.path)))
	h.dev = devicetest.OpenSim(t, &sim.Options{Arch: 80})
	var report *Report
	h.x, report, err = Open(ctx, h.path, h.dev, OpenOptions{HostFirst: true, Mirror: o.Mirror, Cache: o.Cache, Resize: o.Resize, AtomicTail: o.AtomicTail})
	must(t, err)
	if int(report.Keys) != len(h.model) || h.x.Len() != len(h.model) {
		t.Fatalf("%d keys are found, Len is %d, want %d", report.Keys, h.x.Len(), len(h.model))
	}
	return h
}

// copied returns a copy of the file that a crash would leave now.
func (h *hostFirst) copied(t *testing.T) string {
	is, err := os.ReadFile(h.path)
	must(t, errors.Join(err, os.WriteFile(h.path+".left", is, 0o600)))
	return h.path + ".left"
}

func (h *hostFirst) onHost() bool { return h.x.engine.accel == nil }

// checkWhole fails unless an index has the expected contents.
func (h *hostFirst) checkWhole(t *testing.T, x *Index) {
	t.Helper()
	want := model{}
	for k, v := range h.model {
		want[k] = string(v)
	}
	want.equal(t, x)
	must(t, x.Check(ctx))
}

// The host works on a pool while a GPU maps it, with all operations, even those that make it grow.
// From the next batch on the GPU works on the pool, with all changes of the host. A crash before or
// after the hand-over leaves the same contents.
func TestHostFirst(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	for _, o := range []Options{{}, {Mirror: true, Resize: Stop}, {Cache: .4}, {Mirror: true, Cache: .5}, {AtomicBatch: 200, AtomicTail: 300}} {
		t.Run(fmt.Sprintf("%v,%v,%v,%d", o.Resize, o.Mirror, o.Cache, o.AtomicBatch), func(t *testing.T) {
			let := slowMapping(t)
			h := openHostFirst(t, o)
			program(t, h.x, h.model, 6)
			h.checkWhole(t, h.x)
			s := devicetest.NewStream(t, h.dev)
			key := denseKey(8, 7)
			keys, values := devicetest.Upload(t, s, key), devicetest.Upload(t, s, make([]byte, 24))
			put := make(chan error)
			go func() { put <- h.x.PutOn(s, keys, values) }()
			pages := 0
			for range h.x.Pages(ctx) {
				if pages++; pages == 1 {
					_, err := h.x.Delete(ctx, key, nil)
					must(t, err)
				}
			}
			select {
			case err := <-put:
				t.Fatalf("a batch on the device before it has the pool: %v", err)
			default:
			}
			if !h.onHost() {
				t.Fatal("the GPU works on a pool that it has not mapped")
			}
			opened := func(dev device.Device) {
				t.Helper()
				path := h.path
				h.path = h.copied(t)
				x, _, err := Open(ctx, h.path, dev, OpenOptions{Verify: true})
				must(t, err)
				h.checkWhole(t, x)
				must(t, x.Close())
				h.path = path
			}
			delete(h.model, string(key))
			opened(openCPU(t))
			let(nil)
			must(t, <-put)
			h.model[string(key)] = make([]byte, 24)
			must(t, errors.Join(h.x.Sync(ctx), h.x.WaitMapped(ctx)))
			if h.onHost() {
				t.Fatal("the GPU has mapped the pool, and the host works on it")
			}
			h.checkWhole(t, h.x)
			program(t, h.x, h.model, 10)
			h.checkWhole(t, h.x)
			must(t, h.x.Compact(ctx))
			if s, err := h.x.Stats(ctx); err != nil || s.Tombs > 0 {
				t.Errorf("%d tombs, including those of the host: %v", s.Tombs, err)
			}
			opened(openCPU(t))
			must(t, h.x.Close())
			opened(openCPU(t))
		})
	}
}

// TestHostFirst, with keys and values of any length.
func TestHostFirstStrings(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	let := slowMapping(t)
	path, want := filepath.Join(memoryDir(t), "pool"), model{}
	x, err := CreateStrings(path, openCPU(t), Options{Capacity: 20, Size: smallPool})
	must(t, err)
	put := func(lo, hi int) {
		t.Helper()
		var keys, values Bytes
		for i := lo; i < hi; i++ {
			key, value := fmt.Sprint("key ", i), strings.Repeat("value", i%7)
			keys.Append([]byte(key))
			values.Append([]byte(value))
			want[key] = value
		}
		_, err := x.Put(ctx, keys, values)
		must(t, err)
		want.equalStrings(t, x)
	}
	put(0, 20)
	must(t, x.Close())
	x, _, err = OpenStrings(ctx, path, devicetest.OpenSim(t, nil), OpenOptions{HostFirst: true})
	must(t, err)
	put(10, 60)
	let(nil)
	must(t, x.WaitMapped(ctx))
	if x.engine.accel == nil {
		t.Fatal("the GPU has mapped the pool, and the host works on it")
	}
	put(40, 120)
	must(t, errors.Join(x.Check(ctx), x.Close()))
}

// If a pool cannot be mapped, or is closed before it is mapped, the host keeps it.
func TestHostFirstForGood(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	let := slowMapping(t)
	refused := fmt.Errorf("%w: pages that nobody may lock", device.ErrUnsupported)
	h := openHostFirst(t, Options{})
	let(refused)
	s := devicetest.NewStream(t, h.dev)
	keys := devicetest.Upload(t, s, denseKey(8, 1))
	for range 2 {
		if err := h.x.WaitMapped(ctx); !errors.Is(err, refused) {
			t.Errorf("Mapped: %v", err)
		}
		if err := h.x.ContainsOn(s, keys, devicetest.Upload(t, s, make([]bool, 1))); !errors.Is(err, refused) {
			t.Errorf("ContainsOn: %v", err)
		}
		program(t, h.x, h.model, 3)
	}
	h.checkWhole(t, h.x)
	must(t, h.x.Close())

	h = openHostFirst(t, Options{})
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := h.x.WaitMapped(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Mapped while it is not: %v", err)
	}
	waits := make(chan error)
	go func() { waits <- h.x.WaitMapped(ctx) }()
	program(t, h.x, h.model, 3)
	must(t, h.x.Close())
	if err := <-waits; !errors.Is(err, op.ErrClosed) {
		t.Errorf("Mapped of a pool that is closed: %v", err)
	}
	x, report, err := Open(ctx, h.path, openCPU(t), OpenOptions{})
	must(t, err)
	if report.Unfinished+report.Moved > 0 {
		t.Errorf("opened: %+v", report)
	}
	h.checkWhole(t, x)
	must(t, x.Close())
}

// If any operation of a device fails while the GPU takes over a pool, the host keeps the pool.
func TestHostFirstFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "what fails does so in one goroutine")
	smallParts(t)
	let := slowMapping(t)
	hosts := uint32(0)
	for n := 0; ; n++ {
		h := openHostFirst(t, Options{Mirror: true, Cache: .5})
		hit := devicetest.FailAfter(h.dev, n)
		let(nil)
		err := h.x.WaitMapped(ctx)
		fired := hit()
		devicetest.ClearFailures(h.dev)
		// otherwise the GPU has the pool, and the error has another cause
		stays := err != nil && strings.Contains(err.Error(), "stays on the CPU")
		if err != nil && !fired || stays != h.onHost() {
			t.Fatalf("failure %d: %v, the host works on the pool: %v", n, err, h.onHost())
		}
		program(t, h.x, h.model, 2)
		h.checkWhole(t, h.x)
		must(t, h.x.Close())
		if hosts += bit(stays); !fired {
			break
		}
	}
	if hosts < 10 {
		t.Errorf("the host kept %d pools", hosts)
	}
}

// The hand-over happens while readers and writers are at work.
func TestHostFirstBeside(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	let := slowMapping(t)
	for range 4 {
		h := openHostFirst(t, Options{Mirror: true})
		const n = 30
		var keys, values []byte
		for i := range n {
			keys, values = append(keys, denseKey(8, 1000+i)...), append(values, make([]byte, 24)...)
		}
		_, err := h.x.Put(ctx, keys, values)
		must(t, err)
		var work sync.WaitGroup
		for range 2 {
			work.Go(func() {
				last := byte(0)
				for range 20 {
					values := make([]byte, n*24)
					hits, err := h.x.Get(ctx, keys, values, nil)
					if err != nil || hits != n || values[0] < last {
						t.Errorf("%d of %d keys, %v, round %d behind %d", hits, n, err, values[0], last)
					}
					last = values[0]
				}
			})
		}
		for round := range byte(12) {
			if round == 4 {
				work.Go(func() { let(nil) })
			}
			for i := range values {
				values[i] = round
			}
			_, err := h.x.Put(ctx, keys, values)
			must(t, err)
		}
		work.Wait()
		must(t, h.x.WaitMapped(ctx))
		must(t, errors.Join(h.x.Check(ctx), h.x.Close()))
	}
}
