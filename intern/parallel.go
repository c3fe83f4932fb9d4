package intern

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// grain is how many rows a core takes at a time: enough that taking them costs nothing, and so
// few that their keys stay in its first-level cache.
const grain = 4096

// parallel is [device.Host.Parallel] where the device is no host.
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
