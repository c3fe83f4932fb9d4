package gpu

import (
	"context"
	"errors"
	"math/bits"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
)

const (
	// scratchOp is the scratch memory of an operation, in bytes: two winners, a place in either
	// list, a flag.
	scratchOp = 4*2 + 4 + 4 + 1
	// minScratch is the minimum number of operations of a scratch.
	minScratch = 256
	// minPrivate is the number of operations below which a structure shares a scratch with another
	// one, instead of a smaller separate one.
	minPrivate = 1 << 16
)

// Scratch is device memory in which a change resolves duplicates, and lists operations that
// overflow. A change holds it until its call has submitted all work and, if required, has read the
// list. The device may still be working then. The next user makes its stream wait for that work,
// unless its work runs later anyway.
type Scratch struct {
	Ops int // a power of two

	buf      device.Buffer
	clean    bool // all winners are zero
	acquired bool
	user     *Queue // queue with the last changes that used it, until LastChange; nil: none
}

// The parts of a scratch: two winners per operation, zero between changes; the operations that
// contend; those that overflow; flags for a batch without a column of flags.
func (x *Scratch) winners() device.Ptr        { return x.buf.Ptr }
func (x *Scratch) contendedItems() device.Ptr { return x.buf.Ptr + device.Ptr(8*x.Ops) }
func (x *Scratch) failed() device.Ptr         { return x.buf.Ptr + device.Ptr(12*x.Ops) }
func (x *Scratch) flags() device.Ptr          { return x.buf.Ptr + device.Ptr(16*x.Ops) }

// scratchOps returns the size of a scratch for n operations.
func scratchOps(n int) int { return 1 << bits.Len(uint(max(n, minScratch)-1)) }

// AcquireScratch acquires a scratch for n operations, or fewer. ReleaseScratch releases it.
func (q *Queue) AcquireScratch(ctx context.Context, n int) (*Scratch, error) {
	w := q.Workspace
	n = scratchOps(min(n, ResolveOps))
	w.mu.Lock()
	defer w.mu.Unlock()
	var x *Scratch
	err := w.waiters.Wait(ctx, &w.mu, false, func() (bool, error) {
		var err error
		x, err = w.find(q, n)
		return x != nil, err
	})
	if x != nil {
		x.acquired = true
	}
	return x, err
}

// ReleaseScratch releases a scratch.
func (q *Queue) ReleaseScratch(x *Scratch) {
	w := q.Workspace
	w.mu.Lock()
	defer w.mu.Unlock()
	x.acquired = false
	w.waiters.Wake()
}

// find looks for a scratch: one that this queue has used, or that is no longer in use, or a new
// one. If the limit forbids a new one, it returns the largest that is not acquired, and the caller
// waits for its work. It returns nil if all are acquired.
func (w *Workspace) find(q *Queue, n int) (*Scratch, error) {
	if x := w.bestFit(n, func(x *Scratch) bool { return x.user == q }); x != nil {
		return x, nil
	}
	if x := w.bestFit(n, w.done); x != nil {
		return x, nil
	}
	remaining := w.limit
	for _, x := range w.scratch {
		if x.acquired || !w.done(x) {
			remaining -= x.buf.Size
		}
	}
	ops := n
	for ops > minScratch && scratchOp*ops > remaining {
		ops /= 2
	}
	if fits := scratchOp*ops <= remaining && ops >= min(n, minPrivate); !fits && len(w.scratch) > 0 {
		return w.bestFit(0, func(*Scratch) bool { return true }), nil
	}
	// A new scratch fits if those that are too small are freed, unless they have the same size.
	if x := w.bestFit(0, w.done); x != nil && x.Ops == ops {
		return x, nil
	}
	if err := w.freeSmall(n); err != nil {
		return nil, err
	}
	x, err := w.newScratch(ops)
	// a smaller scratch slows the change down
	for errors.Is(err, device.ErrMemory) && ops > minScratch {
		ops /= 2
		x, err = w.newScratch(ops)
	}
	return x, err
}

// bestFit returns the smallest free scratch for n operations that passes ok, or the largest if n is
// 0.
func (w *Workspace) bestFit(n int, ok func(*Scratch) bool) (found *Scratch) {
	for _, x := range w.scratch {
		if !x.acquired && x.Ops >= n && (found == nil || (x.Ops < found.Ops) == (n > 0)) && ok(x) {
			found = x
		}
	}
	return found
}

// done reports whether the device has finished with a scratch.
func (w *Workspace) done(x *Scratch) bool {
	if x.user == nil {
		return true
	}
	if x.user.LastChange().Sync(core.EndedContext) != nil {
		return false
	}
	x.user = nil
	return true
}

// freeSmall frees unused scratches that are too small for n operations.
func (w *Workspace) freeSmall(n int) (err error) {
	w.scratch = slices.DeleteFunc(w.scratch, func(x *Scratch) bool {
		if x.acquired || x.Ops >= n || !w.done(x) {
			return false
		}
		err = errors.Join(err, w.dev.Free(x.buf))
		return true
	})
	return err
}

func (w *Workspace) newScratch(ops int) (*Scratch, error) {
	buf, err := w.dev.Alloc(scratchOp * ops)
	if err != nil {
		return nil, err
	}
	x := &Scratch{Ops: ops, buf: buf}
	w.scratch = append(w.scratch, x)
	return x, nil
}

// setUser makes a change on a stream run after the work of the queue that used a scratch before,
// and records this queue as its user. The queue's own changes run one after another anyway.
func (q *Queue) setUser(s *device.Stream, x *Scratch) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if x.user != nil && x.user != q {
		if err := s.Wait(x.user.LastChange()); err != nil {
			return err
		}
	}
	x.user = q
	return nil
}

// waitScratch makes other work on a stream run after the last use of a scratch. The caller waits
// for that work before it returns the scratch. The winners are then no longer zero.
func (w *Workspace) waitScratch(s *device.Stream, x *Scratch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.clean = false
	if x.user == nil {
		return nil
	}
	return s.Wait(x.user.LastChange())
}

// removeUser removes a queue from the scratches that it used, once its changes are done.
func (w *Workspace) removeUser(q *Queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.scratch {
		if x.user == q {
			x.user = nil
		}
	}
}
