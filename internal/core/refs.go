package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Updater is an engine with memory that kernels of users read and change.
type Updater interface {
	// Update calls f, and then submits an update of the counters. f submits work to a stream, after
	// the change before, that inserts up to n keys in the current generation and changes other keys
	// in any way.
	Update(s *device.Stream, n int, f func() error) error
}

// Reserver is the policy of such an engine.
type Reserver interface {
	// Reserve reserves capacity for n unknown keys, or pairs of a multimap, all at once. If the
	// counters are bounds and do not prove that capacity suffices, it returns false and is called
	// again with exact counters. The capacity of a table of fixed size does not grow.
	Reserve(ctx context.Context, now Counters, n int) (ok bool, err error)
}

// MaxInserts is the maximum number of keys that an update may insert.
const MaxInserts uint64 = 1 << 31

// View calls f with the current generation; f submits work that reads it to a stream. The lease
// ends when that work is done, as that of a lookup on a stream does.
//
// View is a call, so exclusive sections wait for f. That keeps the generation from being cleared or
// flushed between the making of a Ref and the last launch, but f must not change the table. A held
// lease would allow changes, and the table would have to validate each launch again.
func (t *Table) View(ctx context.Context, s *device.Stream, f func(Parts) error) error {
	return t.wrap("View", t.view(ctx, nil, s, f))
}

// ViewAt is View for a snapshot.
func (t *Table) ViewAt(ctx context.Context, at *Snapshot, s *device.Stream, f func(Parts) error) error {
	err := at.check(t)
	if err == nil {
		err = t.view(ctx, at, s, f)
	}
	return t.wrap("ViewAt", err)
}

// check returns an error unless s is a snapshot of t.
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
	if err := t.checkKernels(s); err != nil {
		return err
	}
	lease, err := t.acquireLease(ctx, at, &batch.Batch{})
	if err != nil {
		return err
	}
	defer func() {
		lease.AddStream(s) // after the work that f has submitted, also if it panics
		err = errors.Join(err, t.releaseLease(at, lease))
	}()
	return f(lease.Parts)
}

// Update calls f with the current generation, with capacity for n more keys; f submits changes of
// it to a stream. They run in the order of the calls, among other changes.
func (t *Table) Update(ctx context.Context, s *device.Stream, n int, f func(Parts) error) error {
	return t.wrap("Update", t.update(ctx, s, n, f))
}

func (t *Table) update(ctx context.Context, s *device.Stream, n int, f func(Parts) error) error {
	if err := t.checkKernels(s); err != nil {
		return err
	}
	if n < 0 || uint64(n) > MaxInserts {
		return fmt.Errorf("%w: %d insertions are not 0 to %d", device.ErrInvalid, n, MaxInserts)
	}
	return t.runLocked(ctx, false, func() error {
		if err := t.reserve(ctx, n); err != nil {
			return err
		}
		t.nextStale = true
		defer t.bound.addUpdate(n) // also if f fails: part of its work may have been submitted
		return t.Engine.(Updater).Update(s, n, func() error { return f(t.Leases.Current().Parts) })
	})
}

// checkKernels returns an error for a device without kernels, or for a stream of another device.
func (t *Table) checkKernels(s *device.Stream) error {
	if p := t.Device.Properties(); p.Kind == device.CPU {
		return fmt.Errorf("%w: there is no Ref on %s", device.ErrNoKernels, p.Name)
	}
	return (&batch.Batch{}).CheckDevice(t.Device, s)
}

// reserve reserves capacity for n insertions. It waits for submitted work only if the bounds do not
// prove that capacity suffices.
func (t *Table) reserve(ctx context.Context, n int) error {
	p := t.Policy.(Reserver)
	ok, err := p.Reserve(ctx, t.bound, n)
	if ok || err != nil {
		return err
	}
	now, err := t.readCounters(ctx)
	if err != nil {
		return err
	}
	_, err = p.Reserve(ctx, now, n)
	_, cerr := t.readCounters(ctx) // Reserve may have removed dead slots
	return errors.Join(err, cerr)
}

// addUpdate adds to the bounds the effect of kernels of users, which may have erased any key.
func (c *Counters) addUpdate(n int) {
	c.Exact = false
	c.Used += uint64(n)
	c.Live, c.Dead = c.Used, c.Used
}
