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
	// scratchOp is the size of a scratch for an operation, in bytes: two winners,
	// a place in either list, a flag.
	scratchOp = 4*2 + 4 + 4 + 1
	// leastScratch is the number of operations that a scratch is made for at least.
	leastScratch = 256
	// fairScratch is the number below which a structure rather takes turns with
	// another one on the device than have a scratch of its own.
	fairScratch = 1 << 16
)

// Scratch is device memory that a change resolves duplicates with, and lists
// operations without room in. It is lent to the change under way: until the call
// has submitted it, and has read the list if it wants to. The work on the device
// may go on; whoever has the scratch next lets its stream wait for that, unless
// it comes behind it anyway.
type Scratch struct {
	Ops int // a power of two

	buf   device.Buffer
	clean bool // no winners are left
	lent  bool
	user  *Queue // whose changes used it last, until Changed; nil: nobody's
}

// The parts of a scratch: twice as many winners as operations, zero between changes;
// the operations that contend; those without room; flags for a batch that brings
// none.
func (x *Scratch) winners() device.Ptr { return x.buf.Ptr }
func (x *Scratch) listed() device.Ptr  { return x.buf.Ptr + device.Ptr(8*x.Ops) }
func (x *Scratch) failed() device.Ptr  { return x.buf.Ptr + device.Ptr(12*x.Ops) }
func (x *Scratch) flags() device.Ptr   { return x.buf.Ptr + device.Ptr(16*x.Ops) }

// scratchOps is the size of a scratch for n operations.
func scratchOps(n int) int { return 1 << bits.Len(uint(max(n, leastScratch)-1)) }

// Scratch lends a queue scratch for n operations, or fewer, until Return.
func (q *Queue) Scratch(ctx context.Context, n int) (*Scratch, error) {
	w := q.Workspace
	n = scratchOps(min(n, ResolveOps))
	w.mu.Lock()
	defer w.mu.Unlock()
	var x *Scratch
	err := w.line.Wait(ctx, &w.mu, false, func() (bool, error) {
		var err error
		x, err = w.find(q, n)
		return x != nil, err
	})
	if x != nil {
		x.lent = true
	}
	return x, err
}

// Return takes a scratch back.
func (q *Queue) Return(x *Scratch) {
	w := q.Workspace
	w.mu.Lock()
	defer w.mu.Unlock()
	x.lent = false
	w.line.Wake()
}

// find looks for a scratch: one that this queue has used, or that nobody uses any
// more, or a new one; and if the limit does not allow that, the largest that is
// not lent, whose work will be waited for. Nil: all are lent.
func (w *Workspace) find(q *Queue, n int) (*Scratch, error) {
	if x := w.best(n, func(x *Scratch) bool { return x.user == q }); x != nil {
		return x, nil
	}
	if x := w.best(n, w.done); x != nil {
		return x, nil
	}
	left := w.limit
	for _, x := range w.scratch {
		if x.lent || !w.done(x) {
			left -= x.buf.Size
		}
	}
	ops := n
	for ops > leastScratch && scratchOp*ops > left {
		ops /= 2
	}
	if fits := scratchOp*ops <= left && ops >= min(n, fairScratch); !fits && len(w.scratch) > 0 {
		return w.best(0, func(*Scratch) bool { return true }), nil
	}
	// There is room if those that are too small go; not for one of the same size.
	if x := w.best(0, w.done); x != nil && x.Ops == ops {
		return x, nil
	}
	if err := w.drop(n); err != nil {
		return nil, err
	}
	x, err := w.make(ops)
	for errors.Is(err, device.ErrMemory) && ops > leastScratch { // a change takes longer with less
		ops /= 2
		x, err = w.make(ops)
	}
	return x, err
}

// best is the smallest scratch for n operations that is not lent and of which ok
// is true, or the largest if n is 0.
func (w *Workspace) best(n int, ok func(*Scratch) bool) (found *Scratch) {
	for _, x := range w.scratch {
		if !x.lent && x.Ops >= n && (found == nil || (x.Ops < found.Ops) == (n > 0)) && ok(x) {
			found = x
		}
	}
	return found
}

// done reports whether the device has done with a scratch.
func (w *Workspace) done(x *Scratch) bool {
	if x.user == nil {
		return true
	}
	if x.user.Changed().Sync(core.Ended) != nil {
		return false
	}
	x.user = nil
	return true
}

// drop frees what nobody uses and is too small for n operations.
func (w *Workspace) drop(n int) (err error) {
	w.scratch = slices.DeleteFunc(w.scratch, func(x *Scratch) bool {
		if x.lent || x.Ops >= n || !w.done(x) {
			return false
		}
		err = errors.Join(err, w.dev.Free(x.buf))
		return true
	})
	return err
}

func (w *Workspace) make(ops int) (*Scratch, error) {
	buf, err := w.dev.Alloc(scratchOp * ops)
	if err != nil {
		return nil, err
	}
	x := &Scratch{Ops: ops, buf: buf}
	w.scratch = append(w.scratch, x)
	return x, nil
}

// use makes a change on a stream come behind the work of the queue that has used
// a scratch before, and notes that this one does. Its own changes come one after
// another by themselves.
func (q *Queue) use(s *device.Stream, x *Scratch) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if x.user != nil && x.user != q {
		if err := s.Wait(x.user.Changed()); err != nil {
			return err
		}
	}
	x.user = q
	return nil
}

// follow makes other work on a stream come behind what a scratch has been used
// for. The caller waits for that work before it returns the scratch, whose winners
// are no longer zero.
func (w *Workspace) follow(s *device.Stream, x *Scratch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.clean = false
	if x.user == nil {
		return nil
	}
	return s.Wait(x.user.Changed())
}

// forget takes a queue, whose changes are done, off the scratches that it used.
func (w *Workspace) forget(q *Queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.scratch {
		if x.user == q {
			x.user = nil
		}
	}
}
