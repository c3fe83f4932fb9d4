package staging

import (
	"context"
	"slices"
	"sync"
)

// WaitQueue is a queue of calls that wait for a resource. The zero WaitQueue is ready to use.
type WaitQueue struct {
	waiting []chan struct{}
}

// Wait calls try until try succeeds or fails. Calls proceed in order of arrival, but a call with
// overtakes set tries at once. The caller holds mu, which guards the state that try reads. Wait
// releases mu while it waits. If the context ends, Wait returns its error, but only after the first
// try.
func (l *WaitQueue) Wait(ctx context.Context, mu *sync.Mutex, overtakes bool, try func() (bool, error)) error {
	if overtakes || len(l.waiting) == 0 {
		if ok, err := try(); ok || err != nil {
			return err
		}
	}
	ready := make(chan struct{}, 1)
	l.waiting = append(l.waiting, ready)
	defer func() {
		l.waiting = slices.DeleteFunc(l.waiting, func(t chan struct{}) bool { return t == ready })
		l.Wake() // the next call may succeed, too
	}()
	for {
		mu.Unlock()
		select {
		case <-ready:
		case <-ctx.Done():
		}
		mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
		if ok, err := try(); ok || err != nil {
			return err
		}
	}
}

// Wake makes the first waiting call try again. Callers call it after they release the resource.
func (l *WaitQueue) Wake() {
	if len(l.waiting) == 0 {
		return
	}
	select {
	case l.waiting[0] <- struct{}{}:
	default:
	}
}
