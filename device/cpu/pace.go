package cpu

import (
	"runtime"
	"sync/atomic"
	"time"
)

// yieldTime is how long a goroutine runs bodies before others of its core may
// go first. The scheduler would take the core away only after 10 to 20 ms, and
// while it does not, timers of that core fire late: a context with a deadline
// of 1 ms, waited for beside Parallel on all cores, ended after 20 ms.
const yieldTime = 500 * time.Microsecond

var (
	epoch = time.Now()
	// busy is the number of goroutines, of all devices, that run bodies.
	busy atomic.Int64
)

// pace says when a goroutine lets others go first. Callers share one, which
// makes each of them yield a little less often.
type pace struct{ next atomic.Int64 } // nanoseconds since epoch

// yield lets others go first if it is time, and if no core is idle: an idle
// core sees to timers by itself, and to wake it takes 20 us in a virtual
// machine, against 0.5 us for a yield among busy ones. Others that kept the
// core for long have to wait as long for the next turn.
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
