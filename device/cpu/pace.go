package cpu

import (
	"runtime"
	"sync/atomic"
	"time"
)

// yieldTime is how long a goroutine runs bodies before it yields its core. Without yields, the
// scheduler would preempt the goroutine only after 10 to 20 ms, and the core's timers would fire
// late. While Parallel ran on all cores, a context with a deadline of 1 ms ended after 20 ms.
const yieldTime = 500 * time.Microsecond

var (
	epoch = time.Now()
	// busy is the number of goroutines, over all devices, that run bodies.
	busy atomic.Int64
)

// pace decides when a goroutine yields. Callers share one pace, so each yields less often.
type pace struct{ next atomic.Int64 } // nanoseconds since epoch

// yield yields the core if yieldTime has passed and no core is idle. An idle core runs its timers
// itself. Waking it takes 20 us in a virtual machine, whereas a yield among busy cores takes 0.5
// us. If other goroutines kept the core for longer than yieldTime, the goroutine then runs for as
// long before its next yield.
func (p *pace) yield() {
	begin := time.Since(epoch)
	if int64(begin) < p.next.Load() {
		return
	}
	end := begin
	if busy.Load() >= int64(runtime.GOMAXPROCS(0)) {
		runtime.Gosched()
		end = time.Since(epoch)
	}
	p.next.Store(int64(end + max(yieldTime, end-begin)))
}
