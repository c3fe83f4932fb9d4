package clib

import "runtime"

// Thread is an operating system thread for libraries that keep state per thread.
type Thread struct {
	work chan func()
	done chan struct{}
}

// NewThread starts a thread.
func NewThread() *Thread {
	t := &Thread{work: make(chan func()), done: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range t.work {
			f()
			t.done <- struct{}{}
		}
	}()
	return t
}

// Do runs f on the thread and waits for it. Only one goroutine may call Do at a time.
func (t *Thread) Do(f func()) {
	t.work <- f
	<-t.done
}

// Stop ends the thread.
func (t *Thread) Stop() { close(t.work) }
