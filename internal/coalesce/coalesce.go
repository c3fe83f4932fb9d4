// Package coalesce makes batches of the calls of many goroutines: what weft.Batcher
// gathers keys with.
//
// One goroutine of a queue runs batches one after another. While one runs, calls gather
// for the next, so batches are as large as the machine is slow, and a call that is alone
// begins at once. A delay makes batches larger than that, at the price of waiting.
package coalesce

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weftgo/weft/internal/op"
)

// Options say how calls gather.
type Options struct {
	Batch   int           // calls that one batch has at most
	Delay   time.Duration // how long the first call of a batch waits for others; 0: until those that are ready to run have come
	Waiting int           // calls that are in the queue at most; others wait to enter, first come, first served
}

// Queue gathers calls of type C, which hold what is asked and what the answer is.
type Queue[C any] struct {
	opts Options
	run  func([]*C)

	mu      sync.Mutex
	batches []*batch[C] // not begun, oldest first; all but the last were full
	calls   []*C        // of the batch that runs
	inside  int         // calls in the queue that have not been answered or withdrawn
	outside []*place[C] // calls that there is no room for, oldest first
	closed  bool
	closing chan struct{} // closed with it
	wake    chan struct{} // what serve waits for may have come
	ended   chan struct{} // serve has returned
}

// place is where a call waits: outside, as long as it has no batch.
type place[C any] struct {
	c        *C
	batch    *batch[C]
	at       int           // in the batch
	admitted chan struct{} // closed when it gets a batch
}

// batch is calls that run together.
type batch[C any] struct {
	calls []*place[C] // nil: withdrawn
	live  int         // half of them at least
	begun bool
	since time.Time     // when its first call came
	done  chan struct{} // closed when it has run
}

// yields is how often a batch without a delay lets other goroutines run before it begins,
// as long as each time brings calls: those whose last call has just been answered come back.
const yields = 16

// New makes a queue that run works for: it fills in the answers of a batch, whose calls are in
// the order in which they came. One batch runs at a time.
func New[C any](opts Options, run func([]*C)) *Queue[C] {
	q := &Queue[C]{
		opts: opts, run: run,
		closing: make(chan struct{}), wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go q.serve()
	return q
}

// Do waits until a batch has answered a call. A context that ends takes a call back that has not
// begun. One that has begun runs on: Do waits for its answer, unless leave is set; then
// c still gets an answer, which nobody reads.
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

// enter puts a call in a batch, behind those that wait for room already.
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

// admitted reports whether a call is in a batch; otherwise it waits outside, unless the queue is closed.
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
	if b.live == 0 { // all that there may have been are withdrawn
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

// drop takes a call out of a batch. Calls that come and go while nothing begins must not fill the memory.
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
			p.at = len(b.calls) // whoever waits reads its batch meanwhile, and nothing else
			b.calls = append(b.calls, p)
		}
	}
	clear(all[len(b.calls):])
}

// withdraw takes a call back, if it has not begun.
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

// release makes room for so many calls.
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
	default: // it has been told already
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

// next waits for a batch and for what it waits for, and begins it; nil, if there will be none.
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

// begin takes the oldest batch out of the queue.
func (q *Queue[C]) begin() *batch[C] {
	b := q.batches[0]
	q.batches = q.batches[1:]
	b.begun = true
	return b
}

// unlocked waits for something without the lock.
func (q *Queue[C]) unlocked(wait func()) {
	q.mu.Unlock()
	defer q.mu.Lock()
	wait()
}

// sleep waits so long, or until a batch is full or the queue closed.
func (q *Queue[C]) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-q.wake:
	}
}

// Close runs what is in the queue, without delay, and takes no more. It returns when all of it has
// been answered.
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
