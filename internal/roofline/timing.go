package roofline

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weftgo/weft/device"
)

// Stopwatch times work of a stream by the device's own clock.
type Stopwatch struct {
	stream     *device.Stream
	start, end *device.Event
}

// NewStopwatch times work of s. Close it in the end.
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

// Time is how long the work takes that submit puts on the stream; it waits
// for that work.
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

// Median is the median of what measure returns, over runs runs after one that
// doesn't count.
func Median(ctx context.Context, runs int, measure func() (time.Duration, error)) (time.Duration, error) {
	times := make([]time.Duration, 0, runs)
	for i := range runs + 1 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		t, err := measure()
		if err != nil {
			return 0, err
		}
		if i > 0 {
			times = append(times, t)
		}
	}
	slices.Sort(times)
	return max(times[len(times)/2], 1), nil // a clock too coarse gives 0
}

// Rate is n per time, in 1/s.
func Rate(n int, t time.Duration) float64 { return float64(n) / t.Seconds() }
