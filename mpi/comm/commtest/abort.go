package commtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft/mpi/comm"
)

// Abort tests that an abort of one rank ends the calls of all other ranks within a second, in
// engines with all ranks in one process. It aborts waits, exchanges, and a group made by Split.
// open returns the ranks of a new group.
func Abort(t *testing.T, open func(n int) []comm.Comm) {
	const size = 7
	for name, wait := range map[string]Body{
		"Barrier": func(ctx context.Context, c comm.Comm) error { return c.Barrier(ctx) },
		"AllToAllV": func(ctx context.Context, c comm.Comm) error {
			e := newExchange(1, c.Size(), 1<<16)
			return c.AllToAllV(ctx, comm.Host(e.sent(c.Rank())), e.sends(c.Rank()),
				comm.Host(e.received(c.Rank())), e.receives(c.Rank()))
		},
		"Calls": func(ctx context.Context, c comm.Comm) (err error) {
			for err == nil {
				err = allToAllV(ctx, c)
			}
			return err
		},
		"Split": func(ctx context.Context, c comm.Comm) error {
			sub, err := c.Split(ctx, c.Rank()%2, 0)
			if err != nil {
				return err
			}
			for err == nil {
				err = sub.Barrier(ctx)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { abortOne(t, open(size), name, wait) })
	}
}

// abortOne aborts the last rank while the other ranks run wait.
func abortOne(t *testing.T, ranks []comm.Comm, name string, wait Body) {
	last := len(ranks) - 1
	var aborted time.Time
	var group sync.WaitGroup
	errs, ended := make([]error, last), make([]time.Time, last)
	for rank, c := range ranks[:last] {
		group.Go(func() {
			errs[rank] = wait(t.Context(), c)
			ended[rank] = time.Now()
		})
	}
	c := ranks[last]
	done := make(chan error, 1)
	if name == "Calls" || name == "Split" {
		go func() { done <- wait(t.Context(), c) }() // the last rank is in calls, too
	} else {
		done <- comm.ErrAborted
	}
	time.Sleep(20 * time.Millisecond)
	aborted = time.Now()
	c.Abort(3)
	group.Wait()
	for rank, err := range append(errs, <-done) {
		if !errors.Is(err, comm.ErrAborted) {
			t.Errorf("rank %d of an aborted group returns %v", rank, err)
		}
	}
	for rank, at := range ended {
		if took := at.Sub(aborted); took > time.Second {
			t.Errorf("rank %d returns %v after the abort", rank, took)
		}
	}
	for rank, c := range ranks {
		if err := c.Barrier(t.Context()); !errors.Is(err, comm.ErrAborted) {
			t.Errorf("Barrier of rank %d after the abort returns %v", rank, err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close of rank %d after the abort returns %v", rank, err)
		}
	}
}
