package core_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

type parts struct{ freed atomic.Int32 }

func (p *parts) Free() error { p.freed.Add(1); return nil }

// want requires the memory to have been freed the given number of times.
func (p *parts) want(t *testing.T, freed int32) {
	t.Helper()
	if n := p.freed.Load(); n != freed {
		t.Errorf("memory was freed %d times, want %d", n, freed)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, l *core.Leases) *core.Lease {
	t.Helper()
	lease, err := l.Read(t.Context(), nil)
	must(t, err)
	return lease
}

// idle requires that no lease is left: a writer must get the lock at once and wait for no reader.
func idle(t *testing.T, l *core.Leases) {
	t.Helper()
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, l.LockWriter(soon))
	must(t, l.BeginExclusive(soon))
	l.EndExclusive()
	l.UnlockWriter()
	must(t, read(t, l).End())
}

// Writers must get the lock in order of arrival. If the context of a waiting writer ends, it must
// leave the queue and block no other writer.
func TestWritersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.NewLeases(&parts{})
		must(t, l.LockWriter(t.Context()))
		var order []int
		var mu sync.Mutex
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := 0
		for i := range 6 {
			go func() {
				c := t.Context()
				if i%3 == 1 {
					c = ctx
				}
				err := l.LockWriter(c)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("writer %d: %v", i, err)
					}
					gaveUp++
					return
				}
				order = append(order, i)
				l.UnlockWriter()
			}()
			synctest.Wait() // the goroutine is waiting
		}
		cancel()
		synctest.Wait()
		if gaveUp != 2 || len(order) != 0 {
			t.Errorf("%d writers gave up, %v have had their turns", gaveUp, order)
		}
		l.UnlockWriter()
		synctest.Wait()
		if !slices.Equal(order, []int{0, 2, 3, 5}) {
			t.Errorf("writers came as %v", order)
		}
		idle(t, l)
	})
}

// A call with an ended context must return an error, even if it need not wait.
func TestEndedContextGetsNothing(t *testing.T) {
	l := core.NewLeases(&parts{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	held, err := l.Hold(t.Context())
	must(t, err)
	for name, take := range map[string]func() error{
		"Write":                func() error { return l.LockWriter(ended) },
		"Read":                 func() error { _, err := l.Read(ended, nil); return err },
		"Hold":                 func() error { _, err := l.Hold(ended); return err },
		"Read of a held lease": func() error { _, err := l.Read(ended, held); return err },
	} {
		if err := take(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, held.End())
	idle(t, l)
}

// Outside exclusive sections, readers must not wait for the writer, nor for writers that wait for
// the lock.
func TestReadersDontWaitForWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.NewLeases(&parts{})
		must(t, l.LockWriter(t.Context()))
		go func() {
			must(t, l.LockWriter(t.Context()))
			l.UnlockWriter()
		}()
		synctest.Wait()
		a, b := read(t, l), read(t, l) // synctest reports a deadlock if they wait
		must(t, a.End())
		must(t, b.End())
		l.UnlockWriter()
		synctest.Wait()
		idle(t, l)
	})
}

// BeginExclusive must wait for running calls, on the current and on old generations, but not for
// held leases. Calls that arrive meanwhile must wait until the section ends or their context ends.
func TestExclude(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.NewLeases(&parts{})
		held, err := l.Hold(t.Context())
		must(t, err)
		must(t, l.LockWriter(t.Context()))
		must(t, l.Replace(&parts{}))
		current := read(t, l)
		old, err := l.Read(t.Context(), held)
		must(t, err)
		excluded := false
		go func() {
			must(t, l.BeginExclusive(t.Context()))
			excluded = true
		}()
		for _, lease := range []*core.Lease{current, old} {
			synctest.Wait()
			if excluded {
				t.Error("Exclude did not wait for a call in flight")
			}
			must(t, lease.End())
		}
		synctest.Wait()
		if !excluded {
			t.Fatal("Exclude waits for a lease that is held")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var came, gaveUp atomic.Int32
		for i := range 4 {
			go func() {
				c := t.Context()
				if i%2 == 0 {
					c = ctx
				}
				lease, err := l.Read(c, nil)
				if errors.Is(err, context.Canceled) {
					gaveUp.Add(1)
					return
				}
				must(t, err)
				came.Add(1)
				must(t, lease.End())
			}()
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if came.Load() != 0 || gaveUp.Load() != 2 {
			t.Errorf("behind the bar %d calls went on and %d gave up", came.Load(), gaveUp.Load())
		}
		l.EndExclusive()
		synctest.Wait()
		if came.Load() != 2 {
			t.Errorf("after it %d calls went on, want 2", came.Load())
		}
		l.UnlockWriter()
		must(t, held.End())
		idle(t, l)
	})
}

// If a writer nests exclusive sections, readers must wait for the end of the outer section.
func TestNestedExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.NewLeases(&parts{})
		must(t, l.LockWriter(t.Context()))
		must(t, l.BeginExclusive(t.Context()))
		came := false
		go func() {
			must(t, read(t, l).End())
			came = true
		}()
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		l.Current().AddStream(device.NewStream(nil, &fakeStream{state: errBusy}))
		if err := l.BeginExclusive(ended); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		must(t, l.BeginExclusive(t.Context()))
		l.EndExclusive()
		synctest.Wait()
		if came {
			t.Error("a call came in behind one bar of two")
		}
		l.EndExclusive()
		synctest.Wait()
		if !came {
			t.Error("a call waits for no bar")
		}
		l.UnlockWriter()
		idle(t, l)
	})
}

// If BeginExclusive returns an error, all calls must be admitted again.
func TestExcludeGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.NewLeases(&parts{})
		must(t, l.LockWriter(t.Context()))
		call := read(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		came := false
		go func() {
			time.Sleep(time.Millisecond) // the call waits for the section to end
			lease, err := l.Read(t.Context(), nil)
			must(t, err)
			came = true
			must(t, lease.End())
		}()
		if err := l.BeginExclusive(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Exclude: %v", err)
		}
		synctest.Wait()
		if !came {
			t.Error("a call still waits behind a writer that has given up")
		}
		l.UnlockWriter()
		must(t, call.End())
		idle(t, l)
	})
}

// A generation must be freed with its last lease, and not before it is replaced.
func TestGenerationsAreFreed(t *testing.T) {
	first, second := &parts{}, &parts{}
	l := core.NewLeases(first)
	call := read(t, l)
	held, err := l.Hold(t.Context())
	must(t, err)
	must(t, l.LockWriter(t.Context()))
	if !l.Held() {
		t.Error("a lease that is held does not show")
	}
	must(t, l.Replace(second))
	if l.Held() || l.Current().Parts != core.Parts(second) || held.Parts != core.Parts(first) {
		t.Error("a lease on the old generation holds the new one")
	}
	l.UnlockWriter()
	first.want(t, 0)
	must(t, call.End())
	inner, err := l.Read(t.Context(), held)
	must(t, err)
	if inner.Parts != core.Parts(first) {
		t.Error("a call within an iteration reads another generation")
	}
	must(t, held.End())
	first.want(t, 0)
	must(t, inner.End())
	first.want(t, 1)
	idle(t, l)
	held, err = l.Hold(t.Context())
	must(t, err)
	ok, err := l.Close()
	must(t, err)
	if !ok {
		t.Error("the first Close says that it is not")
	}
	must(t, l.Free())
	second.want(t, 0) // user code still holds it
	if _, err := l.Read(t.Context(), held); !errors.Is(err, op.ErrClosed) {
		t.Errorf("a call within an iteration after Close: %v", err)
	}
	must(t, held.End())
	second.want(t, 1)
	first.want(t, 1)
}

// Close must wait for running calls. Calls that wait meanwhile must return ErrClosed.
func TestCloseWakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.NewLeases(&parts{})
		call := read(t, l)
		must(t, l.LockWriter(t.Context()))
		var closed, errs atomic.Int32
		for range 2 {
			go func() {
				first, err := l.Close()
				must(t, err)
				if first {
					closed.Add(1)
				}
			}()
		}
		synctest.Wait()
		for i := range 4 {
			go func() {
				var err error
				if i%2 == 0 {
					err = l.LockWriter(t.Context())
				} else {
					time.Sleep(time.Second) // the call waits for the section of Close to end
					_, err = l.Read(t.Context(), nil)
				}
				if errors.Is(err, op.ErrClosed) {
					errs.Add(1)
				}
			}()
		}
		synctest.Wait()
		if closed.Load() != 0 {
			t.Error("Close did not wait for its turn")
		}
		l.UnlockWriter()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if closed.Load() != 0 {
			t.Error("Close did not wait for the call in flight")
		}
		must(t, call.End())
		synctest.Wait()
		if closed.Load() != 1 || errs.Load() != 4 {
			t.Errorf("%d first Closes; %d of 4 waiters got ErrClosed", closed.Load(), errs.Load())
		}
	})
}

// Whatever ends their waits, calls must be counted exactly once.
func TestEveryWaitLeavesTheCountsRight(t *testing.T) {
	l := core.NewLeases(&parts{})
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration((i*7+worker)%50)*time.Microsecond)
				switch worker % 4 {
				case 0:
					if l.LockWriter(ctx) == nil {
						if l.BeginExclusive(ctx) == nil {
							l.EndExclusive()
						}
						l.UnlockWriter()
					}
				case 1:
					if l.LockWriter(ctx) == nil {
						_ = l.Replace(&parts{})
						l.UnlockWriter()
					}
				case 2:
					if lease, err := l.Read(ctx, nil); err == nil {
						_ = lease.End()
					}
				case 3:
					if held, err := l.Hold(ctx); err == nil {
						if call, err := l.Read(ctx, held); err == nil {
							_ = call.End()
						}
						_ = held.End()
					}
				}
				cancel()
			}
		})
	}
	wg.Wait()
	idle(t, l)
	first, err := l.Close()
	must(t, err)
	last := l.Current().Parts.(*parts)
	must(t, l.Free())
	if !first {
		t.Error("not the first Close")
	}
	last.want(t, 1)
}

// If a context ends at the same moment as the exclusive section, the call may already be counted as
// running. The count must then be undone.
func TestGivesUpAsTheBarIsLifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.NewLeases(&parts{})
		must(t, l.LockWriter(t.Context()))
		must(t, l.BeginExclusive(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := l.Read(ctx, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("Read: %v", err)
			}
		}()
		synctest.Wait()
		cancel()         // the call stops waiting …
		l.EndExclusive() // … and is admitted before it locks the mutex
		synctest.Wait()
		l.UnlockWriter()
		idle(t, l)
	})
}

// fakeStream is a stream with pending work, without work, or closed.
type fakeStream struct {
	device.StreamDriver
	state error // error of Sync; nil if no work is pending
	syncs int
}

var errBusy = errors.New("busy")

func (s *fakeStream) Sync(ctx context.Context) error {
	s.syncs++
	if s.state == errBusy {
		return ctx.Err()
	}
	return s.state
}

// A generation must not keep finished streams, since a service may use one stream per request. It
// must wait for streams with pending work.
func TestStreamsAreForgotten(t *testing.T) {
	l := core.NewLeases(&parts{})
	lease := read(t, l)
	busy := &fakeStream{state: errBusy}
	lease.AddStream(device.NewStream(nil, busy))
	for i := range 10_000 {
		s := &fakeStream{state: errBusy}
		lease.AddStream(device.NewStream(nil, s))
		if s.state = nil; i%2 == 0 {
			s.state = device.ErrClosed
		}
	}
	if n := lease.Streams(); n > 64 {
		t.Errorf("%d streams are remembered of 10,000 that have nothing under way", n)
	}
	busy.syncs = 0
	must(t, lease.Wait(t.Context()))
	if busy.syncs != 1 || lease.Streams() != 0 {
		t.Errorf("a stream with work under way was waited for %d times; %d are left", busy.syncs, lease.Streams())
	}
	must(t, lease.End())
	idle(t, l)
}

// After a wait has returned an error, the next wait must continue with the same stream.
func TestWaitForStreamsGivesUp(t *testing.T) {
	l := core.NewLeases(&parts{})
	lease := read(t, l)
	streams := []*fakeStream{{}, {state: errBusy}, {state: device.ErrClosed}}
	for _, s := range streams {
		lease.AddStream(device.NewStream(nil, s))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lease.Wait(ended); !errors.Is(err, context.Canceled) || lease.Streams() != 2 {
		t.Errorf("%v, and %d streams are left", err, lease.Streams())
	}
	must(t, lease.Wait(t.Context()))
	if streams[0].syncs != 1 || streams[1].syncs != 2 || streams[2].syncs != 1 {
		t.Errorf("streams were waited for %d, %d and %d times", streams[0].syncs, streams[1].syncs, streams[2].syncs)
	}
	must(t, lease.End())
}

// After a table of a group is closed following failed work, a writer of another table must still
// exclude readers.
func TestCloseOfAGroupLeavesTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := core.NewGroup()
		a, b := g.Leases(&parts{}), g.Leases(&parts{})
		dropped := errors.New("lost")
		a.Current().AddStream(device.NewStream(nil, &fakeStream{state: dropped}))
		if _, err := a.Close(); !errors.Is(err, dropped) {
			t.Fatal(err)
		}
		must(t, b.LockWriter(t.Context()))
		must(t, b.BeginExclusive(t.Context()))
		var in atomic.Bool
		go func() {
			lease, err := b.Read(t.Context(), nil)
			if err == nil {
				in.Store(true)
				lease.End()
			}
		}()
		synctest.Wait()
		if in.Load() {
			t.Error("a reader came in beside a writer that excludes them")
		}
		b.EndExclusive()
		synctest.Wait()
		b.UnlockWriter()
		if !in.Load() {
			t.Error("the reader did not come in afterwards")
		}
	})
}
