package cuda

import (
	"context"
	"runtime"
	"time"
)

const (
	// pollTime is how long a wait polls without sleeping. It is about the time to launch a batch of
	// some million operations. A sleep of minPause takes some 70 µs.
	pollTime = time.Millisecond
	// minPause and maxPause bound the sleep between two polls.
	minPause = 20 * time.Microsecond
	maxPause = time.Millisecond
)

// wait calls reached repeatedly until reached returns true or an error, or ctx ends. It calls
// reached at least once, so that it reports completed work even if ctx has ended.
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
