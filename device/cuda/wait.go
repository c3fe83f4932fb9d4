package cuda

import (
	"context"
	"runtime"
	"time"
)

const (
	// pollTime is how long a wait asks without sleeping: about what the launches
	// of a batch of some million operations take. Sleeping for minPause takes some 70 µs.
	pollTime = time.Millisecond
	// minPause and maxPause bound the sleep between two questions.
	minPause = 20 * time.Microsecond
	maxPause = time.Millisecond
)

// wait asks reached over and over until it says yes or fails, or ctx ends. It
// asks at least once, so that what is done is done whatever ctx says.
func wait(ctx context.Context, reached func() (bool, error)) error {
	start := time.Now()
	for {
		if ok, err := reached(); ok || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if waited := time.Since(start); waited < pollTime {
			runtime.Gosched()
		} else {
			pause(min(max(waited/16, minPause), maxPause))
		}
	}
}
