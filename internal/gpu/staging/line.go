package staging

import (
	"context"
	"slices"
	"sync"
)

// WaitQueue is a queue of calls that wait for a resource. The zero WaitQueue is ready.
type WaitQueue struct {
	waiting []chan struct{}
}

// Wait calls try until it succeeds or fails. Calls proceed in order of arrival, except those with
// overtakes, which may overtake. mu guards the state that try reads. It is held during each try and
// when Wait returns, but not in between. The end of the context ends the wait, but not the first
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

// Wake signals the first call that a resource has been released.
func (l *WaitQueue) Wake() {
	if len(l.waiting) == 0 {
		return
	}
	select {
	case l.waiting[0] <- struct{}{}:
	default:
	}
}
