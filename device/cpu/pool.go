package cpu

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// spinTime is how long goroutines poll before they sleep. A helper polls for the next call of
// Parallel, a caller for the end of its last helper. Structures call Parallel in quick succession.
// Waking a sleeping goroutine on another core takes 5 us on bare metal and 75 us in a virtual
// machine. Starting a second worker that is awake, and waiting for it, takes 1 us.
const spinTime = 20 * time.Microsecond

// pool distributes regions, which are calls of Parallel, over helper goroutines that live as long
// as the pool. The caller always runs ranges of its region itself; helpers join when they are free.
// No goroutine waits for a helper that has not begun, so nested or concurrent calls cannot
// deadlock.
type pool struct {
	helpers int
	start   sync.Once
	offers  chan *region
	stop    chan struct{}
	running sync.WaitGroup
	callers pace
	// labels makes each region start new helpers, which inherit the caller's profiler labels.
	labels bool
}

func newPool(workers int, labels bool) *pool {
	return &pool{
		helpers: workers - 1,
		labels:  labels,
		offers:  make(chan *region, workers),
		stop:    make(chan struct{}),
	}
}

// close stops the helpers. Later calls of parallel run in the caller.
func (p *pool) close() {
	p.start.Do(func() {}) // no helper starts after this
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
		p.runInline(n, max(grain, 1), body)
		return
	}
	r := newRegion(n, max(grain, 1), body)
	if p.labels {
		p.spawn(r)
	} else {
		p.start.Do(func() {
			for range p.helpers {
				p.running.Go(p.runHelper)
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

func (p *pool) runInline(n, grain int, body func(lo, hi int)) {
	busy.Add(1)
	defer busy.Add(-1)
	for lo := 0; lo < n; lo += min(grain, n-lo) {
		body(lo, lo+min(grain, n-lo))
		p.callers.yield()
	}
}

// spawn starts helpers that end with region r. It starts none once the pool is closed.
func (p *pool) spawn(r *region) {
	select {
	case <-p.stop:
		return
	default:
	}
	for range min(p.helpers, int(r.ranges)-1) {
		go func() {
			var worker pace
			r.run(&worker)
		}()
	}
}

// offer sends r to as many helpers as r can use. It drops offers if the queue is full, since all
// helpers are busy then.
func (p *pool) offer(r *region) {
	for range min(p.helpers, int(r.ranges)-1) {
		select {
		case p.offers <- r:
		default:
			return
		}
	}
}

func (p *pool) runHelper() {
	var worker pace
	stopped := false
	defer func() {
		if !stopped { // a body called runtime.Goexit, as t.FailNow does
			p.running.Go(p.runHelper)
		}
	}()
	for {
		r := p.pollOffers()
		if r == nil {
			select {
			case r = <-p.offers:
			case <-p.stop:
				stopped = true
				return
			}
		}
		r.run(&worker)
	}
}

// pollOffers returns an offer, or nil if none arrives within spinTime.
func (p *pool) pollOffers() *region {
	for begin := time.Now(); time.Since(begin) < spinTime; {
		select {
		case r := <-p.offers:
			return r
		default:
		}
	}
	return nil
}

// region is one call of parallel. Workers claim its ranges by a counter.
type region struct {
	n, grain int
	ranges   int64
	body     func(lo, hi int)

	next     atomic.Int64 // first unclaimed range
	done     atomic.Int64 // number of finished ranges
	finished chan struct{}
	failure  atomic.Pointer[Panic]
}

func newRegion(n, grain int, body func(lo, hi int)) *region {
	ranges := (n-1)/grain + 1
	return &region{n: n, grain: grain, ranges: int64(ranges), body: body, finished: make(chan struct{})}
}

// run claims and runs ranges until none is left.
func (r *region) run(p *pace) {
	busy.Add(1)
	defer busy.Add(-1)
	for {
		i := r.next.Add(1) - 1
		if i >= r.ranges {
			return
		}
		r.runRange(int(i))
		p.yield()
	}
}

// runRange runs a range, unless a range has failed already. It counts the range as done even if
// body panics or ends the goroutine, since the caller waits for the count.
func (r *region) runRange(i int) {
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
			close(r.finished)
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
	<-r.finished
}

// Panic is the value with which Parallel panics if a body panicked. It holds the original value and
// the stack of the worker.
type Panic struct {
	Value any
	Stack []byte
}

// Error returns the text of the value and the stack.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\nin a worker:\n%s", p.Value, p.Stack) }

// Unwrap returns the value if it is an error, else nil.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}
