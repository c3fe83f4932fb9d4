package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Updater is an engine whose memory kernels of users read and change.
type Updater interface {
	// Update calls f, which submits work to a stream that inserts up to n keys in the
	// current generation and does what it likes to others, behind the change before;
	// and submits taking account of it.
	Update(s *device.Stream, n int, f func() error) error
}

// Reserver is the policy of such an engine.
type Reserver interface {
	// Reserve makes room for n keys, or pairs of a multimap, all at once, which
	// nobody knows yet. If the counters are bounds and do not show that there is
	// room, it reports false: it is called again with exact ones. A table of fixed
	// size has what room it has.
	Reserve(ctx context.Context, now Counters, n int) (ok bool, err error)
}

// MaxInserts is how many keys an update may insert at most.
const MaxInserts uint64 = 1 << 31

// View gives f the current generation, from which it submits reading to a stream.
// The lease ends when that is done, as that of a lookup on a stream does.
func (t *Table) View(ctx context.Context, s *device.Stream, f func(Parts) error) error {
	return t.wrap("View", t.view(ctx, nil, s, f))
}

// ViewAt is View of a snapshot.
func (t *Table) ViewAt(ctx context.Context, at *Snapshot, s *device.Stream, f func(Parts) error) error {
	err := at.check(t)
	if err == nil {
		err = t.view(ctx, at, s, f)
	}
	return t.wrap("ViewAt", err)
}

// check reports what is no snapshot of a table.
func (s *Snapshot) check(t *Table) error {
	switch {
	case s == nil:
		return fmt.Errorf("%w: there is no snapshot", device.ErrInvalid)
	case s.table != t:
		return fmt.Errorf("%w: the snapshot is one of another map", device.ErrInvalid)
	}
	return nil
}

func (t *Table) view(ctx context.Context, at *Snapshot, s *device.Stream, f func(Parts) error) (err error) {
	if err := t.runsKernels(s); err != nil {
		return err
	}
	lease, err := t.enter(ctx, at, &batch.Batch{})
	if err != nil {
		return err
	}
	defer func() {
		lease.On(s) // behind what f has submitted, also if it panics
		err = errors.Join(err, t.leave(at, lease))
	}()
	return f(lease.Parts)
}

// Update gives f the current generation, with room for n more keys, to which it
// submits changes on a stream: among other changes, they come in the order of the
// calls.
func (t *Table) Update(ctx context.Context, s *device.Stream, n int, f func(Parts) error) error {
	return t.wrap("Update", t.update(ctx, s, n, f))
}

func (t *Table) update(ctx context.Context, s *device.Stream, n int, f func(Parts) error) error {
	if err := t.runsKernels(s); err != nil {
		return err
	}
	if n < 0 || uint64(n) > MaxInserts {
		return fmt.Errorf("%w: %d insertions are not 0 to %d", device.ErrInvalid, n, MaxInserts)
	}
	return t.turn(ctx, false, func() error {
		if err := t.reserve(ctx, n); err != nil {
			return err
		}
		t.others = true
		defer t.bound.updated(n) // also where f fails: some of it may have been submitted
		return t.Engine.(Updater).Update(s, n, func() error { return f(t.Leases.Current().Parts) })
	})
}

// runsKernels reports a device without kernels, and streams that are not its own.
func (t *Table) runsKernels(s *device.Stream) error {
	if p := t.Device.Properties(); p.Kind == device.CPU {
		return fmt.Errorf("%w: there is no Ref on %s", device.ErrNoKernels, p.Name)
	}
	return (&batch.Batch{}).CheckPlace(t.Device, s)
}

// reserve makes room for n insertions. It waits for what has been submitted only if
// the bounds do not show that there is room.
func (t *Table) reserve(ctx context.Context, n int) error {
	p := t.Policy.(Reserver)
	ok, err := p.Reserve(ctx, t.bound, n)
	if ok || err != nil {
		return err
	}
	now, err := t.count(ctx)
	if err != nil {
		return err
	}
	_, err = p.Reserve(ctx, now, n)
	_, cerr := t.count(ctx) // it may have dropped dead slots
	return errors.Join(err, cerr)
}

// updated takes account of kernels of users, which may have erased anything.
func (c *Counters) updated(n int) {
	c.Exact = false
	c.Used += uint64(n)
	c.Live, c.Dead = c.Used, c.Used
}
