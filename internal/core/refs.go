package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Updater is an engine with memory that users' kernels may read and change.
type Updater interface {
	// Update calls f, and then submits an update of the counters to s. f submits work to s, which
	// runs after the previous change. The work may insert up to n keys in the current generation
	// and change other keys in any way.
	Update(s *device.Stream, n int, f func() error) error
}

// Reserver is the policy of an [Updater].
type Reserver interface {
	// Reserve reserves capacity for n more keys, or pairs of a multimap, in one step. It returns
	// false if now holds bounds that do not prove sufficient capacity. The table then calls it
	// again with exact counters. The capacity of a table with fixed size does not grow.
	Reserve(ctx context.Context, now Counters, n int) (ok bool, err error)
}

// MaxInserts is the maximum number of keys that one Update may insert.
const MaxInserts uint64 = 1 << 31

// View calls f with the current generation. f submits work to s that reads the generation. The
// generation stays allocated until that work is done.
//
// View counts as a call, so exclusive sections wait for f. Thus the generation is not cleared or
// compacted before the last launch of f, but f must not change the table. A held lease would permit
// changes, but the table would have to validate each launch again.
func (t *Table) View(ctx context.Context, s *device.Stream, f func(Parts) error) error {
	return t.wrap("View", t.view(ctx, nil, s, f))
}

// ViewAt calls f with the generation that a snapshot reads. See [Table.View].
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
		return fmt.Errorf("%w: the snapshot is nil", device.ErrInvalid)
	case s.table != t:
		return fmt.Errorf("%w: the snapshot belongs to another map", device.ErrInvalid)
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
		lease.AddStream(s) // after f has submitted its work, even if f panics
		err = errors.Join(err, t.releaseLease(at, lease))
	}()
	return f(lease.Parts)
}

// Update calls f with the current generation, after reserving capacity for n more keys. f submits
// changes of the generation to s. They run in the order of the calls, like other changes.
func (t *Table) Update(ctx context.Context, s *device.Stream, n int, f func(Parts) error) error {
	if t.journal != nil {
		return t.wrap("Update", errNoKernels)
	}
	return t.wrap("Update", t.update(ctx, s, n, f))
}

func (t *Table) update(ctx context.Context, s *device.Stream, n int, f func(Parts) error) error {
	if err := t.checkKernels(s); err != nil {
		return err
	}
	if n < 0 || uint64(n) > MaxInserts {
		return fmt.Errorf("%w: %d insertions, want 0 to %d", device.ErrInvalid, n, MaxInserts)
	}
	return t.runLocked(ctx, false, func() error {
		if err := t.reserve(ctx, n); err != nil {
			return err
		}
		t.nextStale = true
		// even if f fails, because it may have submitted part of its work
		defer t.bound.addUpdate(n)
		return t.Engine.(Updater).Update(s, n, func() error { return f(t.Leases.Current().Parts) })
	})
}

// checkKernels returns an error if the device has no kernels or the stream belongs to another
// device.
func (t *Table) checkKernels(s *device.Stream) error {
	if p := t.Device.Properties(); p.Kind == device.CPU {
		return fmt.Errorf("%w: a Ref is not available on %s", device.ErrNoKernels, p.Name)
	}
	return (&batch.Batch{}).CheckDevice(t.Device, s)
}

// reserve reserves capacity for n insertions. It waits for submitted work only if the bounds do not
// prove sufficient capacity.
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

// addUpdate increases the bounds by the possible effect of a user's kernel, which may erase any
// key.
func (c *Counters) addUpdate(n int) {
	c.Exact = false
	c.Used += uint64(n)
	c.Live, c.Dead = c.Used, c.Used
}
