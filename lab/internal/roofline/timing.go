package roofline

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weftgo/weft/device"
)

// Stopwatch measures the time of work on a stream by the device's clock.
type Stopwatch struct {
	stream     *device.Stream
	start, end *device.Event
}

// NewStopwatch returns a stopwatch for work on s. Close it after use.
func NewStopwatch(s *device.Stream) (*Stopwatch, error) {
	start, err := s.Device().NewEvent()
	if err != nil {
		return nil, err
	}
	end, err := s.Device().NewEvent()
	if err != nil {
		return nil, errors.Join(err, start.Close())
	}
	return &Stopwatch{s, start, end}, nil
}

// Time returns the time of the work that submit puts on the stream. It waits for that work.
func (w *Stopwatch) Time(ctx context.Context, submit func() error) (time.Duration, error) {
	if err := w.stream.Record(w.start); err != nil {
		return 0, err
	}
	if err := submit(); err != nil {
		return 0, err
	}
	if err := w.stream.Record(w.end); err != nil {
		return 0, err
	}
	if err := w.end.Sync(ctx); err != nil {
		return 0, err
	}
	return w.end.Since(w.start)
}

// Close frees the stopwatch, not its stream.
func (w *Stopwatch) Close() error { return errors.Join(w.start.Close(), w.end.Close()) }

// Median returns the median result of measure over runs runs after a warm-up.
func Median(ctx context.Context, runs int, measure func() (time.Duration, error)) (time.Duration, error) {
	times, err := Samples(ctx, runs, measure)
	if err != nil {
		return 0, err
	}
	return MedianOf(times), nil
}

// Samples returns the results of measure in runs runs after a warm-up.
func Samples(ctx context.Context, runs int, measure func() (time.Duration, error)) ([]time.Duration, error) {
	times := make([]time.Duration, 0, runs)
	for i := range runs + 1 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t, err := measure()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			times = append(times, max(t, 1)) // a coarse clock may return 0
		}
	}
	return times, nil
}

// MedianOf returns the upper median of times.
func MedianOf(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

// Rate returns n per time, in 1/s.
func Rate(n int, t time.Duration) float64 { return float64(n) / t.Seconds() }

// BusyTimer keeps a GPU busy for a while without touching its memory. Work submitted meanwhile
// starts after all of it has been submitted. Its time is thus what it takes among other work,
// without the time of submitting.
type BusyTimer struct {
	watch  *Stopwatch
	kernel device.Kernel
	blocks int
}

// minBusy is the busy time. It exceeds the time of submitting a batch, even with a garbage
// collection.
const minBusy = time.Millisecond

// NewBusyTimer prepares for work on a stopwatch's stream.
func NewBusyTimer(ctx context.Context, w *Stopwatch) (*BusyTimer, error) {
	m, err := w.stream.Device().Load(&rooflineImage)
	if err != nil {
		return nil, err
	}
	a := &BusyTimer{watch: w, blocks: 1 << 12}
	if a.kernel, err = m.Kernel("roofline_empty"); err != nil {
		return nil, err
	}
	for {
		t, err := w.Time(ctx, a.launch)
		if err != nil || t >= minBusy {
			return a, err
		}
		a.blocks *= 2
	}
}

func (a *BusyTimer) launch() error {
	return device.Launch(a.watch.stream, a.kernel, device.Dim{X: a.blocks}, device.Dim{X: block}, &params{})
}

// Time is [Stopwatch.Time] after the busy time.
func (a *BusyTimer) Time(ctx context.Context, submit func() error) (time.Duration, error) {
	if err := a.launch(); err != nil {
		return 0, err
	}
	return a.watch.Time(ctx, submit)
}
