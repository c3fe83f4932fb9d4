package cpu

import "github.com/weftgo/weft/device"

// Inline is a host that runs loops on the calling goroutine. It serves work that several goroutines
// already do concurrently. Only Parallel is implemented; other methods panic.
type Inline struct{ device.Host }

// Parallel implements [device.Host].
func (Inline) Parallel(n, grain int, body func(lo, hi int)) {
	for lo := 0; lo < n; lo += grain {
		body(lo, min(lo+grain, n))
	}
}
