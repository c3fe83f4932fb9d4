package cpu

import (
	"runtime"
	"sync/atomic"
	"time"
)

// yieldTime is how long a goroutine runs bodies before it yields its core. The scheduler would
// preempt it only after 10 to 20 ms, and until then timers of that core fire late. A context with a
// deadline of 1 ms, waited for beside Parallel on all cores, ended after 20 ms.
const yieldTime = 500 * time.Microsecond

var (
	epoch = time.Now()
	// busy is the number of goroutines, over all devices, that run bodies.
	busy atomic.Int64
)

// pace decides when a goroutine yields. Callers share one, so each of them yields a little less
// often.
type pace struct{ next atomic.Int64 } // nanoseconds since epoch

// yield yields the core if yieldTime has passed and no core is idle. An idle core runs its timers
// itself, and waking it takes 20 us in a virtual machine, against 0.5 us for a yield among busy
// cores. If other goroutines kept the core for long, the next yield comes only after the same time.
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
