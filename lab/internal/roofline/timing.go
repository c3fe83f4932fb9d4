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

// NewStopwatch returns a stopwatch for work on s. The caller must call Close.
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

// Time calls submit, waits for the work that submit has submitted to the stream, and returns the
// time of that work.
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

// Close frees the stopwatch, but not its stream.
func (w *Stopwatch) Close() error { return errors.Join(w.start.Close(), w.end.Close()) }

// Median calls measure once to warm up, and then the given number of times. It returns the median
// result.
func Median(ctx context.Context, runs int, measure func() (time.Duration, error)) (time.Duration, error) {
	times, err := Samples(ctx, runs, measure)
	if err != nil {
		return 0, err
	}
	return MedianOf(times), nil
}

// Samples calls measure once to warm up, and then the given number of times. It returns the results
// without the first one.
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

// BusyTimer measures work that waits in the queue of a busy GPU. It first keeps the GPU busy
// without accessing its memory, until all work has been submitted. The measured time therefore
// excludes the time of submitting, as in a program that submits other work before.
type BusyTimer struct {
	watch  *Stopwatch
	kernel device.Kernel
	blocks int
}

// minBusy is the time for which the GPU is kept busy. It exceeds the time of submitting a batch,
// even with a garbage collection.
const minBusy = time.Millisecond

// NewBusyTimer returns a timer for work on the stream of a stopwatch.
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

// Time keeps the GPU busy and measures the submitted work. See [Stopwatch.Time].
func (a *BusyTimer) Time(ctx context.Context, submit func() error) (time.Duration, error) {
	if err := a.launch(); err != nil {
		return 0, err
	}
	return a.watch.Time(ctx, submit)
}
