package conformance

import (
	"context"
	"errors"
	"testing"
	"time"
)

// stopMargin is the maximum time that a call may continue after its context ends. On an idle
// machine the time is a few milliseconds. Since test machines are busy, a call has stopTries
// attempts.
const stopMargin, stopTries = 500 * time.Millisecond, 3

// Stoppable is a call that takes a context.
type Stoppable struct {
	Name string
	Run  func(ctx context.Context) error
	// Long reports that the call takes longer than the test waits, so it must have been stopped.
	Long bool
}

// StopsOnCancel ends the context of each call at several times and requires the call to return
// soon. The next call runs on the state that the previous call has left.
func StopsOnCancel(t *testing.T, calls []Stoppable) {
	waits := []time.Duration{0, time.Millisecond, 7 * time.Millisecond, 30 * time.Millisecond}
	for _, c := range calls {
		t.Run(c.Name, func(t *testing.T) {
			stopped, longest := 0, time.Duration(0)
			for _, after := range waits {
				delay, err := stop(t.Context(), after, c.Run)
				for tries := 1; delay > stopMargin && tries < stopTries; tries++ {
					delay, err = stop(t.Context(), after, c.Run)
				}
				switch {
				case errors.Is(err, context.Canceled):
					stopped++
				case err != nil:
					t.Fatal(err)
				}
				longest = max(longest, delay)
			}
			t.Logf("stopped %d times of %d, within %v", stopped, len(waits), longest)
			if longest > stopMargin {
				t.Errorf("it goes on for %v when its context has ended", longest)
			}
			if c.Long && stopped < len(waits) {
				t.Error("it has come to its end")
			}
		})
	}
}

// stop ends the context of a call after the given time, and returns how long the call continues.
func stop(ctx context.Context, after time.Duration, run func(context.Context) error) (delay time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan time.Time, 1)
	time.AfterFunc(after, func() {
		ended <- time.Now()
		cancel()
	})
	err = run(ctx)
	returned := time.Now()
	return max(0, returned.Sub(<-ended)), err
}
