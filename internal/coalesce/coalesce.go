// Package coalesce gathers the calls of many goroutines into batches, for weft.Batcher.
//
// Each queue has one goroutine that runs its batches one after another. While a batch runs, calls
// gather for the next batch. So batches grow when the machine is slow, and a single call begins at
// once. A delay makes batches larger, but calls wait longer.
package coalesce

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weftgo/weft/internal/op"
)

// Options controls how a queue gathers calls.
type Options struct {
	Batch int // maximum calls per batch
	// time that the first call of a batch waits; 0: until the runnable goroutines have called
	Delay   time.Duration
	Waiting int // maximum calls in the queue; further calls wait outside, in order of arrival
}

// Queue gathers calls into batches. A value of type C holds a request and its answer.
type Queue[C any] struct {
	opts Options
	run  func([]*C)

	mu      sync.Mutex
	batches []*batch[C] // batches not begun, oldest first; all except the last have been full
	calls   []*C        // calls of the running batch
	inside  int         // calls in the queue that are neither answered nor withdrawn
	outside []*place[C] // calls that wait because the queue is full, oldest first
	closed  bool
	closing chan struct{} // closed by Close
	wake    chan struct{} // signals that serve should check the batches again
	ended   chan struct{} // closed when serve has returned
}

// place is the position of a waiting call: outside the queue if it is full, and then in a batch.
type place[C any] struct {
	c        *C
	batch    *batch[C]
	at       int           // index in batch.calls
	admitted chan struct{} // closed when the call has joined a batch
}

// batch is a set of calls that run together.
type batch[C any] struct {
	calls []*place[C] // an element is nil if its call was withdrawn
	live  int         // number of calls not withdrawn, at least half of len(calls)
	begun bool
	since time.Time     // when the first call arrived
	done  chan struct{} // closed when the batch has run
}

// yields is the maximum number of times that a batch without a delay lets other goroutines run
// before it begins. The batch begins earlier if a yield adds no call. Thus goroutines that have
// just received an answer can join.
const yields = 16

// New returns a queue that calls run for each batch. run receives the calls in order of arrival and
// stores their answers. One batch runs at a time.
func New[C any](opts Options, run func([]*C)) *Queue[C] {
	q := &Queue[C]{
		opts: opts, run: run,
		closing: make(chan struct{}), wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go q.serve()
	return q
}

// Do waits until a batch has answered the call c. If the context ends, Do withdraws a call that has
// not begun. For a call that has begun, Do waits for the answer, or returns at once if leave is
// set. If Do returns at once, c still gets an answer, which the caller must ignore.
func (q *Queue[C]) Do(ctx context.Context, c *C, leave bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, err := q.enter(ctx, c)
	if err != nil {
		return err
	}
	select {
	case <-p.batch.done:
		return nil
	case <-ctx.Done():
	}
	if q.withdraw(p) || leave {
		return ctx.Err()
	}
	<-p.batch.done
	return nil
}

// enter adds a call to a batch. If the queue is full, the call first waits outside.
func (q *Queue[C]) enter(ctx context.Context, c *C) (*place[C], error) {
	p := &place[C]{c: c}
	if !q.admitted(p) {
		select {
		case <-p.admitted:
		case <-q.closing:
		case <-ctx.Done():
			if q.withdraw(p) {
				return nil, ctx.Err()
			}
		}
	}
	if p.batch == nil {
		return nil, op.ErrClosed
	}
	return p, nil
}

// admitted adds the call to a batch, unless the queue is closed or full, and reports whether it has
// done so. If the queue is full, it adds the call to the calls that wait outside.
func (q *Queue[C]) admitted(p *place[C]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
	case q.inside < q.opts.Waiting && len(q.outside) == 0:
		q.join(p)
		return true
	default:
		p.admitted = make(chan struct{})
		q.outside = append(q.outside, p)
	}
	return false
}

// join adds a call to the last batch.
func (q *Queue[C]) join(p *place[C]) {
	n := len(q.batches)
	if n == 0 || len(q.batches[n-1].calls) == q.opts.Batch {
		q.batches = append(q.batches, &batch[C]{done: make(chan struct{})})
		n++
	}
	b := q.batches[n-1]
	if b.live == 0 { // b is new, or all its calls are withdrawn
		b.since = time.Now()
	}
	p.batch, p.at = b, len(b.calls)
	b.calls = append(b.calls, p)
	b.live++
	q.inside++
	if len(b.calls) == 1 || len(b.calls) == q.opts.Batch {
		q.signal()
	}
}

// drop removes a call from a batch. It compacts the batch, so that calls that come and go before
// the batch begins do not accumulate memory.
func (b *batch[C]) drop(p *place[C]) {
	b.calls[p.at] = nil
	b.live--
	if 2*b.live >= len(b.calls) {
		return
	}
	all := b.calls
	b.calls = all[:0]
	for _, p := range all {
		if p != nil {
			p.at = len(b.calls) // safe, because the waiting call reads only p.batch
			b.calls = append(b.calls, p)
		}
	}
	clear(all[len(b.calls):])
}

// withdraw removes a call that has not begun. It returns false if the call has begun.
func (q *Queue[C]) withdraw(p *place[C]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case p.batch == nil:
		if i := slices.Index(q.outside, p); i >= 0 {
			q.outside = slices.Delete(q.outside, i, i+1)
		}
	case p.batch.begun:
		return false
	default:
		p.batch.drop(p)
		q.release(1)
	}
	return true
}

// release removes n calls from the queue and admits calls that wait outside.
func (q *Queue[C]) release(n int) {
	q.inside -= n
	for q.inside < q.opts.Waiting && len(q.outside) > 0 {
		p := q.outside[0]
		q.outside = q.outside[1:]
		q.join(p)
		close(p.admitted)
	}
}

func (q *Queue[C]) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // already signaled
	}
}

// serve runs batches until the queue is closed and empty.
func (q *Queue[C]) serve() {
	defer close(q.ended)
	for {
		b := q.next()
		if b == nil {
			return
		}
		q.calls = q.calls[:0]
		for _, p := range b.calls {
			if p != nil {
				q.calls = append(q.calls, p.c)
			}
		}
		n := len(q.calls)
		if n > 0 {
			q.run(q.calls)
			clear(q.calls)
		}
		close(b.done)
		q.mu.Lock()
		q.release(n)
		q.mu.Unlock()
	}
}

// next waits for a batch and its delay, and begins the batch. It returns nil if the queue is closed
// and empty.
func (q *Queue[C]) next() *batch[C] {
	q.mu.Lock()
	defer q.mu.Unlock()
	for yielded := 0; ; {
		switch {
		case len(q.batches) > 0:
			b := q.batches[0]
			came := len(b.calls)
			left := q.opts.Delay - time.Since(b.since)
			switch full := came == q.opts.Batch || len(q.batches) > 1 || q.closed || b.live == 0; {
			case full || q.opts.Delay > 0 && left <= 0:
				return q.begin()
			case q.opts.Delay > 0:
				q.unlocked(func() { q.sleep(left) })
			default:
				q.unlocked(runtime.Gosched)
				if yielded++; yielded == yields || len(b.calls) == came {
					return q.begin()
				}
			}
		case q.closed:
			return nil
		default:
			q.unlocked(func() { <-q.wake })
		}
	}
}

// begin removes the oldest batch from the queue and returns it.
func (q *Queue[C]) begin() *batch[C] {
	b := q.batches[0]
	q.batches = q.batches[1:]
	b.begun = true
	return b
}

// unlocked releases the lock while wait runs.
func (q *Queue[C]) unlocked(wait func()) {
	q.mu.Unlock()
	defer q.mu.Lock()
	wait()
}

// sleep waits until d has passed, a batch is full, or the queue is closed.
func (q *Queue[C]) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-q.wake:
	}
}

// Close runs the calls in the queue without delay and rejects new calls. It returns when all calls
// in the queue have been answered.
func (q *Queue[C]) Close() {
	q.mu.Lock()
	if !q.closed {
		q.closed, q.outside = true, nil
		close(q.closing)
		q.signal()
	}
	q.mu.Unlock()
	<-q.ended
}
