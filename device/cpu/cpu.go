// Package cpu implements the host as a device. Its memory is host memory outside the Go heap. Its
// work is Go code on all cores. It needs no driver and is always available.
//
// # Streams
//
// Streams are synchronous: every operation has completed when its method returns. Streams therefore
// need no events to order them. Wait never waits, and Sync only checks its context. Launch returns
// an error, since structures run their Go engines through [Device.Parallel].
//
// # Memory
//
// Every block is a separate mapping, rounded up to whole pages. The smallest block costs about 2 us
// and one page (4 KiB on most machines). Blocks of 2 MiB and more are aligned for huge pages and
// request them, because random reads of a large table on small pages miss the TLB nearly every
// time. An allocation of 2 MiB or more fails if the machine (or its container) lacks the memory.
// Linux alone would allow the allocation and kill the process later. Ranges, on Linux only, map
// memory in steps of 2 MiB.
package cpu

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft/device"
)

// Options are the options of [Open]. The zero value selects the defaults.
type Options struct {
	// Workers is the number of goroutines that run bodies of Parallel at the same time, and
	// Properties().Units. 0 means GOMAXPROCS. A lower number leaves cores to other work.
	Workers int

	// Labels makes the workers of a Parallel call inherit the caller's runtime/pprof labels.
	// Structures add two labels to those of the context: weft.structure (linear) and weft.operation
	// (Put). Each call then starts its own goroutines, which costs some microseconds. Use Labels
	// while profiling; it is off by default.
	Labels bool
}

// Device is the host. It implements [device.Host].
type Device struct {
	props  device.Properties
	pool   *pool
	blocks table // allocated by Alloc
	ranges table // mapped parts of the ranges that Reserve returned
	pinned table // allocated by AllocHost
	closed atomic.Bool

	// work is read-locked by stream operations, and write-locked to unmap memory of a range.
	work sync.RWMutex

	mapMu      sync.Mutex // serializes Map and Register
	registered table
	mapped     table
}

var _ device.Host = (*Device)(nil)

// Open makes a device of the host. opts may be nil. Several devices can be open at the same time;
// they do not share buffers. Open returns ErrInvalid if Workers is negative.
func Open(opts *Options) (*Device, error) {
	workers, labels := 0, false
	if opts != nil {
		workers, labels = opts.Workers, opts.Labels
	}
	if workers < 0 {
		return nil, fmt.Errorf("cpu: %w: Options.Workers is %d; use 0 for the default", device.ErrInvalid, workers)
	}
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	return &Device{
		props: device.Properties{
			Kind:  device.CPU,
			Name:  processorName(),
			Units: workers,
			L2:    lastLevelCache(),
		},
		pool: newPool(workers, labels),
	}, nil
}

// Properties describe the host. Units is the number of workers. L2 is the size of the last-level
// cache, if the system reports it.
func (d *Device) Properties() device.Properties { return d.props }

// Memory reads how much memory processes can still get without swapping, and how much the machine
// has. In a container with a memory limit, the limit replaces the machine's memory. Both values are
// 0 if the system does not report them.
func (d *Device) Memory() (device.Memory, error) {
	if d.closed.Load() {
		return device.Memory{}, errClosed("Memory")
	}
	return readMemory(), nil
}

// Parallel implements [device.Host]. The caller also runs bodies; workers join when they are free.
// After Close all bodies run in the caller. If a body panics, Parallel panics with a *[Panic].
func (d *Device) Parallel(n, grain int, body func(lo, hi int)) {
	d.pool.parallel(n, grain, body)
}

// Labels reports whether Options.Labels is set.
func (d *Device) Labels() bool { return d.pool.labels }

// Pinned returns true, because the host copies all memory at the same speed.
func (d *Device) Pinned([]byte) bool { return true }

// Load always fails with [device.ErrNoKernels].
func (d *Device) Load(img *device.Image) (device.Module, error) {
	return nil, fmt.Errorf("cpu: %w: image %s; use the Go engine", device.ErrNoKernels, img)
}

// Unload does nothing, because no image can be loaded.
func (d *Device) Unload(*device.Image) error {
	if d.closed.Load() {
		return errClosed("Unload")
	}
	return nil
}

// Sync returns at once, since submitted work has already completed.
func (d *Device) Sync(ctx context.Context) error {
	if d.closed.Load() {
		return errClosed("Sync")
	}
	return ctx.Err()
}

// Close stops the workers. Later calls return [device.ErrClosed]. Live buffers and ranges stay
// mapped, so that a structure closed too late does not crash the process. Free still releases them.
// A second Close does nothing.
func (d *Device) Close() error {
	if !d.closed.Swap(true) {
		d.pool.close()
	}
	return nil
}

func errClosed(op string) error {
	return fmt.Errorf("cpu: %s: device %w", op, device.ErrClosed)
}

// HostMemory reads the memory of the host, or of the container if that is less. Both values are 0
// if the system does not report them.
func HostMemory() device.Memory { return readMemory() }
