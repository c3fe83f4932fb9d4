package core

import (
	"fmt"
	"sync/atomic"

	"github.com/weftgo/weft/device"
)

// CounterOf returns the counter to which an On method adds its count. It is the first element of
// the caller's optional slice, which must lie on dev.
func CounterOf(dev device.Device, counts []device.Slice[uint64]) (to device.Slice[uint64], err error) {
	if len(counts) == 0 || counts[0].Len() == 0 {
		return to, nil
	}
	if len(counts) > 1 || counts[0].Device() != dev {
		return to, fmt.Errorf("%w: want one slice of this device for the count", device.ErrInvalid)
	}
	return counts[0].Sub(0, 1), nil
}

// AddCount adds n to a counter in host memory. Other goroutines may add to the same counter.
func AddCount(to device.Slice[uint64], n uint64) {
	if host := to.Host(); len(host) > 0 {
		atomic.AddUint64(&host[0], n)
	}
}
