package staging

import (
	"context"
	"slices"
	"sync"
)

// Line is a queue of calls for something that may have to come back first. The
// zero Line is ready.
type Line struct {
	waiting []chan struct{}
}

// Wait calls try until it says that it has got something, or fails; in the order
// of the calls, but for one that passes the others. mu guards what try looks at;
// it is held during each try and when Wait returns, but not meanwhile. An end of
// the context ends the wait, not the first try.
func (l *Line) Wait(ctx context.Context, mu *sync.Mutex, passes bool, try func() (bool, error)) error {
	if passes || len(l.waiting) == 0 {
		if ok, err := try(); ok || err != nil {
			return err
		}
	}
	turn := make(chan struct{}, 1)
	l.waiting = append(l.waiting, turn)
	defer func() {
		l.waiting = slices.DeleteFunc(l.waiting, func(t chan struct{}) bool { return t == turn })
		l.Wake() // the next one may get something, too
	}()
	for {
		mu.Unlock()
		select {
		case <-turn:
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

// Wake tells the first call that something has come back.
func (l *Line) Wake() {
	if len(l.waiting) == 0 {
		return
	}
	select {
	case l.waiting[0] <- struct{}{}:
	default:
	}
}
