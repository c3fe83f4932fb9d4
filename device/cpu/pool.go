package cpu

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// spinTime is how long a helper looks for the next region, and a caller for
// the end of its last helper, before they sleep. Structures call Parallel in
// quick succession, and to wake a sleeper on another core takes 5 us on bare
// metal and 75 us in a virtual machine; found awake, fanning out to a second
// worker and back takes 1 us.
const spinTime = 20 * time.Microsecond

// pool shares regions, calls of Parallel, among goroutines that live as long
// as the pool. The caller always works through its region itself; helpers join
// when they are free. Nobody waits for a helper that has not begun, so nested
// and concurrent calls cannot wait in a circle.
type pool struct {
	helpers int
	start   sync.Once
	offers  chan *region
	stop    chan struct{}
	running sync.WaitGroup
	callers pace
	labels  bool // helpers are goroutines of each region, since these inherit labels of the profiler
}

func newPool(workers int, labels bool) *pool {
	return &pool{
		helpers: workers - 1,
		labels:  labels,
		offers:  make(chan *region, workers),
		stop:    make(chan struct{}),
	}
}

// close stops the helpers; calls of parallel that follow run in the caller.
func (p *pool) close() {
	p.start.Do(func() {}) // none start from now on
	close(p.stop)
	p.running.Wait()
}

func (p *pool) parallel(n, grain int, body func(lo, hi int)) {
	if n <= 0 {
		return
	}
	if n <= grain {
		body(0, n)
		return
	}
	if p.helpers == 0 {
		p.alone(n, max(grain, 1), body)
		return
	}
	r := newRegion(n, max(grain, 1), body)
	if p.labels {
		p.spawn(r)
	} else {
		p.start.Do(func() {
			for range p.helpers {
				p.running.Go(p.help)
			}
		})
		p.offer(r)
	}
	r.run(&p.callers)
	r.wait()
	if failure := r.failure.Load(); failure != nil {
		panic(failure)
	}
}

// alone runs a region in its caller.
func (p *pool) alone(n, grain int, body func(lo, hi int)) {
	busy.Add(1)
	defer busy.Add(-1)
	for lo := 0; lo < n; lo += min(grain, n-lo) {
		body(lo, lo+min(grain, n-lo))
		p.callers.yield()
	}
}

// spawn gives a region helpers of its own, which end with it; none once the pool is closed.
func (p *pool) spawn(r *region) {
	select {
	case <-p.stop:
		return
	default:
	}
	for range min(p.helpers, int(r.ranges)-1) {
		go func() {
			var own pace
			r.run(&own)
		}()
	}
}

// offer invites as many helpers as the region can use. An offer that finds the
// queue full is dropped: everybody is busy.
func (p *pool) offer(r *region) {
	for range min(p.helpers, int(r.ranges)-1) {
		select {
		case p.offers <- r:
		default:
			return
		}
	}
}

func (p *pool) help() {
	var own pace
	stopped := false
	defer func() {
		if !stopped { // a body called runtime.Goexit, as t.FailNow does
			p.running.Go(p.help)
		}
	}()
	for {
		r := p.spin()
		if r == nil {
			select {
			case r = <-p.offers:
			case <-p.stop:
				stopped = true
				return
			}
		}
		r.run(&own)
	}
}

// spin looks for an offer for a while.
func (p *pool) spin() *region {
	for begin := time.Now(); time.Since(begin) < spinTime; {
		select {
		case r := <-p.offers:
			return r
		default:
		}
	}
	return nil
}

// region is one call of parallel: ranges claimed by a counter.
type region struct {
	n, grain int
	ranges   int64
	body     func(lo, hi int)

	next    atomic.Int64 // first range that nobody has claimed
	done    atomic.Int64 // ranges that are over
	over    chan struct{}
	failure atomic.Pointer[Panic]
}

func newRegion(n, grain int, body func(lo, hi int)) *region {
	ranges := (n-1)/grain + 1
	return &region{n: n, grain: grain, ranges: int64(ranges), body: body, over: make(chan struct{})}
}

// run works through ranges until none is left.
func (r *region) run(p *pace) {
	busy.Add(1)
	defer busy.Add(-1)
	for {
		i := r.next.Add(1) - 1
		if i >= r.ranges {
			return
		}
		r.one(int(i))
		p.yield()
	}
}

// one runs a range, unless one has failed already, and counts it as over
// however body ends, for the caller waits for it.
func (r *region) one(i int) {
	returned := false
	defer func() {
		if !returned {
			v := recover()
			if v == nil {
				v = errGoexit
			}
			r.failure.CompareAndSwap(nil, &Panic{v, debug.Stack()})
		}
		if r.done.Add(1) == r.ranges {
			close(r.over)
		}
	}()
	if r.failure.Load() == nil {
		lo := i * r.grain
		r.body(lo, lo+min(r.grain, r.n-lo)) // lo+grain could overflow
	}
	returned = true
}

var errGoexit = errors.New("a body of Parallel called runtime.Goexit")

// wait waits for the ranges that helpers have claimed.
func (r *region) wait() {
	for begin := time.Now(); time.Since(begin) < spinTime; {
		if r.done.Load() == r.ranges {
			return
		}
	}
	<-r.over
}

// Panic is what Parallel panics with when a body did: the value, and the stack
// it came from.
type Panic struct {
	Value any
	Stack []byte
}

// Error describes the panic and where it happened.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\nin a worker:\n%s", p.Value, p.Stack) }

// Unwrap is the value, if it was an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}
