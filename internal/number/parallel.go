package number

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft/device"
)

// grain is the number of rows that a core takes at a time.
const grain = 4096

// Parallel returns a function that runs body on ranges of grain rows, on all cores. For a host it
// is the method of the device.
func Parallel(dev device.Device) func(n, grain int, body func(lo, hi int)) {
	if host, ok := dev.(device.Host); ok {
		return host.Parallel
	}
	return parallel
}

func parallel(n, grain int, body func(lo, hi int)) {
	var next atomic.Int64
	work := func() {
		for {
			lo := int(next.Add(int64(grain))) - grain
			if lo >= n {
				return
			}
			body(lo, min(lo+grain, n))
		}
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (n+grain-1)/grain) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
