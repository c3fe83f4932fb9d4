// Package local runs the ranks of a [comm.Comm] as goroutines of one process. It is useful for
// programs on one machine, and for tests of programs that run on many machines with other engines.
// The receiver of each part copies it once, so all ranks copy at the same time. Memory of GPUs is
// copied over the link between them, and their streams wait for each other without the host. Ranks
// may share a GPU.
package local

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/weftgo/weft/mpi/comm"
)

// Run calls body concurrently for each of n ranks, and waits for all calls. It closes the Comm of a
// rank if body returns nil. The first error or panic of a body aborts the other ranks and cancels
// the context of all bodies. Run returns this error.
func Run(ctx context.Context, n int, body func(ctx context.Context, c comm.Comm) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		group sync.WaitGroup
		once  sync.Once
		first error
	)
	for _, c := range New(n) {
		group.Go(func() {
			// A deferred function runs even if body ends its goroutine.
			err := errors.New("its goroutine exited")
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				}
				if err == nil {
					return
				}
				once.Do(func() { first = fmt.Errorf("local: rank %d: %w", c.Rank(), err) })
				c.Abort(1)
				cancel()
			}()
			if err = body(ctx, c); err == nil {
				err = c.Close()
			}
		})
	}
	group.Wait()
	return first
}

// New makes a group of n ranks and returns the Comm of each. It panics if n is not positive.
func New(n int) []comm.Comm {
	if n <= 0 {
		panic(fmt.Sprintf("local: New of %d ranks", n))
	}
	g := newGroup(n, &abort{done: make(chan struct{})})
	ranks := make([]comm.Comm, n)
	for r := range ranks {
		ranks[r] = &rank{group: g, rank: r}
	}
	return ranks
}
