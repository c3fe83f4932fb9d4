package roofline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftgo/weft/device"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80,90+ptx85 roofline.cu

const (
	block      = 256       // threads per block, compiled into the kernels
	pinnedSize = 256 << 20 // bytes of a timed copy from or to the host: enough to hide its startup
	launches   = 256       // empty kernels per measurement; the driver's queue has 1024
)

// inFlight are the numbers of accesses in flight per thread. Each has a kernel.
var inFlight = []int{1, 2, 4, 8}

// access is a kind of random access that the kernels measure.
type access struct {
	limit  string
	kernel string // entry point without the number in flight
	size   int    // bytes per access
	lanes  int    // threads that share one access
	writes bool   // each run needs cleared memory
	mapped bool   // accesses host memory
}

var accesses = []access{
	{Read16, "roofline_gather_16", 16, 1, false, false},
	{Read32, "roofline_gather_32", 32, 2, false, false},
	{Read64, "roofline_gather_64", 64, 4, false, false},
	{Read128, "roofline_gather_128", 128, 4, false, false},
	{CAS64, "roofline_cas_64", 8, 1, true, false},
	{CAS128, "roofline_cas_128", 16, 1, true, false},
	{MappedRead32, "roofline_gather_32", 32, 2, false, true},
	{MappedRead128, "roofline_gather_128", 128, 4, false, true},
	{MappedCAS64, "roofline_cas_64", 8, 1, true, true},
}

// gpu holds the streams and the memory that all measurements on a GPU use.
type gpu struct {
	*meter
	module          device.Module
	stream          *device.Stream
	watch           *Stopwatch
	queries, result device.Slice[uint64]
	region          device.Slice[uint64]
	// region that kernels access: g.region, or mapped host memory of equal size
	at device.Ptr
}

func (m *meter) measureGPU(ctx context.Context) (err error) {
	g := &gpu{meter: m}
	defer func() { err = errors.Join(err, g.close(ctx)) }()
	if err := g.open(); err != nil {
		return err
	}
	if err := g.measureAccesses(ctx, false); err != nil {
		return err
	}
	if err := g.measureMapped(ctx); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{g.measureBulk, g.measureLaunches, g.measureHostCopies} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (g *gpu) measureAccesses(ctx context.Context, mapped bool) error {
	for _, a := range accesses {
		if a.mapped == mapped && g.selected(a.limit) {
			if err := g.measureAccess(ctx, a); err != nil {
				return fmt.Errorf("%s: %w", a.limit, err)
			}
		}
	}
	return nil
}

// measureMapped measures random accesses over the bus to page-locked host memory.
func (g *gpu) measureMapped(ctx context.Context) (err error) {
	if !g.selectedAny(MappedRead32, MappedRead128, MappedCAS64) {
		return nil
	}
	memory, err := g.dev.AllocHost(g.opts.Region)
	if err != nil {
		return fmt.Errorf("host memory: %w", err)
	}
	defer func() { err = errors.Join(err, g.dev.FreeHost(memory)) }()
	there, unmap, err := g.dev.Map(memory)
	if err != nil {
		return fmt.Errorf("host memory: %w", err)
	}
	defer func() { err = errors.Join(err, g.stream.Sync(context.WithoutCancel(ctx)), unmap()) }()
	g.at = there.Ptr
	err = g.measureAccesses(ctx, true)
	g.at = g.region.Ptr()
	return err
}

func (g *gpu) open() (err error) {
	if g.module, err = g.dev.Load(&rooflineImage); err != nil {
		return err
	}
	if g.stream, err = g.dev.NewStream(); err != nil {
		return err
	}
	if g.watch, err = NewStopwatch(g.stream); err != nil {
		return err
	}
	if g.region, err = device.Make[uint64](g.dev, g.opts.Region/8); err != nil {
		return err
	}
	g.at = g.region.Ptr()
	if g.queries, err = device.Make[uint64](g.dev, g.opts.Ops); err != nil {
		return err
	}
	if g.result, err = device.Make[uint64](g.dev, g.opts.Ops); err != nil {
		return err
	}
	return g.launch("roofline_queries", g.opts.Ops/block, 0)
}

func (g *gpu) close(ctx context.Context) error {
	var errs []error
	if g.stream != nil {
		errs = append(errs, g.stream.Sync(context.WithoutCancel(ctx)))
	}
	errs = append(errs, g.region.Free(), g.queries.Free(), g.result.Free())
	if g.watch != nil {
		errs = append(errs, g.watch.Close())
	}
	if g.stream != nil {
		errs = append(errs, g.stream.Close())
	}
	return errors.Join(errs...)
}

// launch launches a kernel in grid blocks. cells is the number of accesses that fit in the region.
func (g *gpu) launch(kernel string, grid, cells int) error {
	k, err := g.module.Kernel(kernel)
	if err != nil {
		return err
	}
	p := params{
		queries: g.queries.Ptr(), results: g.result.Ptr(), region: g.at,
		count: uint64(g.opts.Ops), cells: uint64(cells),
	}
	return device.Launch(g.stream, k, device.Dim{X: grid}, device.Dim{X: block}, &p)
}

func (g *gpu) clear() error {
	return g.stream.Fill(g.at, 0, g.opts.Region/4)
}

// measureAccess measures one kind of access with every number in flight.
func (g *gpu) measureAccess(ctx context.Context, a access) error {
	for _, flight := range inFlight {
		kernel := fmt.Sprintf("%s_%d", a.kernel, flight)
		grid := g.opts.Ops / (block / a.lanes * flight)
		if err := g.clear(); err != nil {
			return err
		}
		t, err := Median(ctx, g.opts.Runs, func() (time.Duration, error) {
			if a.writes {
				if err := g.clear(); err != nil {
					return 0, err
				}
			}
			return g.watch.Time(ctx, func() error { return g.launch(kernel, grid, g.opts.Region/a.size) })
		})
		if err != nil {
			return err
		}
		if !a.writes {
			if err := g.checkResults(ctx, a.lanes); err != nil {
				return err
			}
		}
		g.record(a.limit, Rate(g.opts.Ops, t), flight)
	}
	return nil
}

// checkResults verifies that a kernel has done the timed work. In a cleared region, each lane adds
// its query to the result.
func (g *gpu) checkResults(ctx context.Context, lanes int) error {
	const sample = blockOps
	tail := g.result.Sub(g.opts.Ops-sample, g.opts.Ops)
	got := make([]uint64, sample)
	if err := tail.CopyTo(ctx, g.stream, got); err != nil {
		return err
	}
	for i, r := range got {
		if want := uint64(lanes * (g.opts.Ops - sample + i)); r != want {
			return fmt.Errorf("query %d came to %d instead of %d: the kernel does not do what is timed", g.opts.Ops-sample+i, r, want)
		}
	}
	// so that the next kernel cannot reuse these results
	return g.stream.Fill(tail.Ptr(), 0, sample*2)
}

func (g *gpu) measureBulk(ctx context.Context) error {
	half := g.opts.Region / 2 / 4 * 4
	if g.selected(Copy) {
		t, err := g.median(ctx, func() error { return g.stream.Copy(g.region.Ptr()+device.Ptr(half), g.region.Ptr(), half) })
		if err != nil {
			return fmt.Errorf("copy: %w", err)
		}
		g.record(Copy, Rate(2*half, t), 1)
	}
	if g.selected(Fill) {
		t, err := g.median(ctx, g.clear)
		if err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		g.record(Fill, Rate(g.opts.Region, t), 1)
	}
	return nil
}

func (g *gpu) median(ctx context.Context, submit func() error) (time.Duration, error) {
	return Median(ctx, g.opts.Runs, func() (time.Duration, error) { return g.watch.Time(ctx, submit) })
}

// measureLaunches measures the cost of an empty kernel by the host's clock.
func (g *gpu) measureLaunches(ctx context.Context) error {
	if !g.selectedAny(Launch, LaunchSync) {
		return nil
	}
	issue, err := Median(ctx, g.opts.Runs, func() (time.Duration, error) {
		start := time.Now()
		for range launches {
			if err := g.launch("roofline_empty", 1, 0); err != nil {
				return 0, err
			}
		}
		t := time.Since(start)
		return t, g.stream.Sync(ctx)
	})
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	g.record(Launch, Rate(launches, issue), 1)

	wait, err := Median(ctx, launches, func() (time.Duration, error) {
		start := time.Now()
		if err := g.launch("roofline_empty", 1, 0); err != nil {
			return 0, err
		}
		err := g.stream.Sync(ctx)
		return time.Since(start), err
	})
	if err != nil {
		return fmt.Errorf("launch_sync: %w", err)
	}
	g.record(LaunchSync, Rate(1, wait), 1)
	return nil
}
