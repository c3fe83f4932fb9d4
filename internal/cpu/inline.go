package cpu

import "github.com/weftgo/weft/device"

// Inline is a host whose loops run on the goroutine that asks, for work that several goroutines do
// side by side already. It has Parallel only: other methods panic.
type Inline struct{ device.Host }

// Parallel implements [device.Host].
func (Inline) Parallel(n, grain int, body func(lo, hi int)) {
	for lo := 0; lo < n; lo += grain {
		body(lo, min(lo+grain, n))
	}
}
