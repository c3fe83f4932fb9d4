package roofline

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/weftgo/weft/device"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80,90+ptx85 chase.cu

// chaseLine is the minimum distance of accesses in a chase: a cache line of a GPU, or two cache
// lines of a CPU.
const (
	chaseLine  = 128
	chaseWords = chaseLine / 8
)

// Chase measures the time of one memory access. One thread follows pointers through a region in
// pseudorandom order, visits all lines, and waits for each access. Each run continues where the
// previous run ended. Caches thus contain what they retain of the whole region, rather than the
// lines of the last run.
type Chase struct {
	Region int  // bytes, a power of two of at least 128
	Steps  int  // timed accesses per run
	Runs   int  // number of runs; the median counts
	Weak   bool // on a GPU, weak loads, which are the only ones that L1 caches serve
}

// Measure returns the time of one access in seconds.
func (c Chase) Measure(ctx context.Context, dev device.Device) (seconds float64, err error) {
	if c.Region < chaseLine || bits.OnesCount(uint(c.Region)) != 1 || c.Steps < 1 || c.Runs < 1 {
		return 0, fmt.Errorf("roofline: %w: a chase of %d steps in %d bytes, %d times", device.ErrInvalid, c.Steps, c.Region, c.Runs)
	}
	region, err := device.Make[uint64](dev, c.Region/8)
	if err != nil {
		return 0, err
	}
	if host, ok := dev.(device.Host); ok {
		defer func() { err = errors.Join(err, region.Free()) }()
		return c.onCPU(ctx, host, region.Host())
	}
	return c.onGPU(ctx, dev, region)
}

func (c Chase) lines() uint64 { return uint64(c.Region / chaseLine) }

// nextLine returns the line that the pointer in a line leads to. chase.cu has the same function.
func nextLine(line, lines uint64) uint64 {
	return (line*0x5851f42d4c957f2d + 0x14057b7ef767814f) & (lines - 1)
}

// chaseWarm is the maximum number of steps before the first run. No cache has that many lines.
const chaseWarm = 1 << 20

// warm returns the number of steps before the first run. They visit all lines if a cache could
// contain them.
func (c Chase) warm() int { return int(min(c.lines(), chaseWarm)) }

// checkEnd verifies that all runs have followed the pointers.
func (c Chase) checkEnd(at uint64) error {
	line := uint64(0)
	// The first line follows the last.
	for range uint64(c.warm()+(c.Runs+1)*c.Steps) % c.lines() {
		line = nextLine(line, c.lines())
	}
	if want := line * chaseWords; at != want {
		return fmt.Errorf("roofline: a chase of %d runs of %d steps in %d bytes ends at %d instead of %d", c.Runs, c.Steps, c.Region, at, want)
	}
	return nil
}

func (c Chase) onCPU(ctx context.Context, dev device.Host, region []uint64) (seconds float64, err error) {
	lines := c.lines()
	dev.Parallel(int(lines), 1<<14, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			region[i*chaseWords] = nextLine(uint64(i), lines) * chaseWords
		}
	})
	at := uint64(0)
	run := func(steps int) time.Duration {
		start := time.Now()
		for range steps {
			at = region[at]
		}
		return time.Since(start)
	}
	run(c.warm())
	t, err := Median(ctx, c.Runs, func() (time.Duration, error) { return run(c.Steps), nil })
	if err == nil {
		err = c.checkEnd(at)
	}
	return t.Seconds() / float64(c.Steps), err
}

func (c Chase) onGPU(ctx context.Context, dev device.Device, region device.Slice[uint64]) (seconds float64, err error) {
	s, err := dev.NewStream()
	if err != nil {
		return 0, errors.Join(err, region.Free())
	}
	place, err := device.Make[uint64](dev, 1)
	var watch *Stopwatch
	defer func() {
		err = errors.Join(err, s.Sync(context.WithoutCancel(ctx)), region.Free(), place.Free())
		if watch != nil {
			err = errors.Join(err, watch.Close())
		}
		err = errors.Join(err, s.Close())
	}()
	if err != nil {
		return 0, err
	}
	if watch, err = NewStopwatch(s); err != nil {
		return 0, err
	}
	module, err := dev.Load(&chaseImage)
	if err != nil {
		return 0, err
	}
	p := chaseParams{region: region.Ptr(), at: place.Ptr(), lines: c.lines(), steps: uint64(c.warm())}
	launch := func(kernel string, blocks int) error {
		k, err := module.Kernel(kernel)
		if err != nil {
			return err
		}
		return device.Launch(s, k, device.Dim{X: blocks}, device.Dim{X: block}, &p)
	}
	err = s.Fill(place.Ptr(), 0, 2)
	if err == nil {
		err = launch("chase_fill", min(int(c.lines()+block-1)/block, 4*dev.Properties().Units))
	}
	kernel := "chase_relaxed"
	if c.Weak {
		kernel = "chase_weak"
	}
	if err == nil {
		err = launch(kernel, 1)
	}
	if err != nil {
		return 0, err
	}
	p.steps = uint64(c.Steps)
	t, err := Median(ctx, c.Runs, func() (time.Duration, error) {
		return watch.Time(ctx, func() error { return launch(kernel, 1) })
	})
	at := make([]uint64, 1)
	if err == nil {
		err = place.CopyTo(ctx, s, at)
	}
	if err == nil {
		err = c.checkEnd(at[0])
	}
	return t.Seconds() / float64(c.Steps), err
}
