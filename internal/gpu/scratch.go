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
	// scratchOp is the size of the scratch memory per operation, in bytes: two winners, an item in
	// each of two lists, and a flag.
	scratchOp = 4*2 + 4 + 4 + 1
	// minScratch is the minimum number of operations that a scratch has memory for.
	minScratch = 256
	// minPrivate is the minimum size of a new scratch that is smaller than requested. If memory is
	// too short for it, a structure shares a scratch with another structure.
	minPrivate = 1 << 16
)

// Scratch is device memory in which a change resolves duplicate keys, and lists the operations that
// found no free slot in the table. A call holds its scratch until it has submitted all work and, if
// required, has read the list. The device may still use the memory then, so the next user makes its
// stream wait for that work first.
type Scratch struct {
	Ops int // capacity in operations, a power of two

	buf      device.Buffer
	clean    bool // all winners are zero
	acquired bool
	user     *Queue // queue whose last change may use the scratch; nil if none
}

// The addresses of the arrays in a scratch. Array winners has two items per operation, which are
// zero between changes. Arrays contendedItems and failed list operations. Array flags replaces a
// missing column OK.
func (x *Scratch) winners() device.Ptr        { return x.buf.Ptr }
func (x *Scratch) contendedItems() device.Ptr { return x.buf.Ptr + device.Ptr(8*x.Ops) }
func (x *Scratch) failed() device.Ptr         { return x.buf.Ptr + device.Ptr(12*x.Ops) }
func (x *Scratch) flags() device.Ptr          { return x.buf.Ptr + device.Ptr(16*x.Ops) }

// scratchOps returns the capacity of a scratch for n operations.
func scratchOps(n int) int { return 1 << bits.Len(uint(max(n, minScratch)-1)) }

// AcquireScratch acquires a scratch for n operations. The scratch may be smaller if n exceeds
// [ResolveOps] or memory is short. The caller must pass it to ReleaseScratch.
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

// find returns a scratch in this order of preference: one that q has used, one that the device no
// longer uses, a new one. If the limit forbids a new one, find returns the largest scratch that is
// not acquired, and the caller must wait for the work that uses it. It returns nil if all are
// acquired.
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
	// If an unused scratch already has the size that fits, a new one would gain nothing. Otherwise
	// free the small ones first to make memory for it.
	if x := w.bestFit(0, w.done); x != nil && x.Ops == ops {
		return x, nil
	}
	if err := w.freeSmall(n); err != nil {
		return nil, err
	}
	x, err := w.newScratch(ops)
	// A smaller scratch suffices, but slows the change down.
	for errors.Is(err, device.ErrMemory) && ops > minScratch {
		ops /= 2
		x, err = w.newScratch(ops)
	}
	return x, err
}

// bestFit returns the smallest free scratch for n operations that satisfies ok. If n is 0, it
// returns the largest.
func (w *Workspace) bestFit(n int, ok func(*Scratch) bool) (found *Scratch) {
	for _, x := range w.scratch {
		if !x.acquired && x.Ops >= n && (found == nil || (x.Ops < found.Ops) == (n > 0)) && ok(x) {
			found = x
		}
	}
	return found
}

// done reports whether the device has finished using a scratch.
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

// setUser makes a change on stream s run after the work of the queue that used x before, and
// records q as the user. Changes of q itself need no wait, since they run one after another.
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

// waitScratch makes stream s wait for the last use of x. The caller must wait for its own work
// before it releases x. The winners are no longer zero afterwards.
func (w *Workspace) waitScratch(s *device.Stream, x *Scratch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.clean = false
	if x.user == nil {
		return nil
	}
	return s.Wait(x.user.LastChange())
}

// removeUser removes q from the scratches that it used. The changes of q must be done.
func (w *Workspace) removeUser(q *Queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.scratch {
		if x.user == q {
			x.user = nil
		}
	}
}
