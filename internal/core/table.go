package core

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/observe"
	"github.com/weftgo/weft/internal/op"
)

// ChunkOps is the maximum number of changes between two readings of a structure's counters. A batch
// of up to ChunkOps operations gets its whole capacity before it starts.
const ChunkOps = 1 << 20

// Table is a map, a set, a multimap or an ordered map with untyped keys and values.
type Table struct {
	Config

	// The writer lock guards bound, sent and ids.
	bound Counters
	sent  submissions // operations on streams since the last Sync
	ids

	// length is the number of pairs after the last call that returned, or at the last Sync.
	length atomic.Int64

	tracked *observe.Tracked
	labels  bool // whether to set profiler labels

	// The writer lock guards loggedID, the next id that the journal has stored. journal is set
	// before the first call, or never.
	journal  Journal
	loggedID uint64
}

// New returns an empty table.
func New(c Config) *Table {
	t := &Table{Config: c, bound: Counters{Exact: true}, labels: usesLabels(c.Device)}
	t.tracked = observe.Track(t, c.Name, c.Logger, (*Table).sizes)
	return t
}

func (t *Table) sizes() (pairs, bytes int) { return t.Len(), t.Leases.memoryBytes() }

// Open makes a table from memory that already holds pairs, such as a file.
func Open(ctx context.Context, c Config) (*Table, error) {
	t := New(c)
	t.nextStale = true
	_, err := t.readCounters(ctx)
	if err != nil {
		t.tracked.Closed() // the caller closes the parts of c
	}
	return t, err
}

// wrap adds the names of the package and the method to an error.
func (t *Table) wrap(method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", t.Name, method, err)
}

// partial returns the error of a batch that did not run completely, or nil if err is nil. rows
// lists the failed operations among the first done. partial zeroes the outputs of operations that
// did not run.
func partial(b *batch.Batch, done int, rows []int, err error) error {
	if err == nil {
		return nil
	}
	b.ClearFrom(done)
	return op.Partial(done, rows, err)
}

// Partial returns the error of a batch that did not run completely, with the names of the package
// and the method.
func (t *Table) Partial(method string, done int, rows []int, err error) error {
	return t.wrap(method, op.Partial(done, rows, err))
}

// Len returns the number of pairs. It includes every call that has returned, and the batches
// submitted to streams before the last Sync. It neither locks nor waits.
func (t *Table) Len() int { return int(t.length.Load()) }

// CheckKind returns device.ErrInvalid if the table does not support operation k, because of its
// kind, its engine or its value type.
func (t *Table) CheckKind(k op.Kind) error {
	has := k <= op.Delete
	switch {
	case k == op.DeleteAll:
		has = t.Kind == MultiMap
	case k == op.Update:
		has = t.Engine.Caps().Updates
	case k.Reduces():
		has = t.Kind.unique() && (k < op.And || t.Types.Val.Letter != 'f')
	}
	if has {
		return nil
	}
	of := ""
	if t.Kind.unique() {
		of = fmt.Sprintf(" of %v values", t.Types.Val)
	}
	return fmt.Errorf("%w: %s%s does not support kind %d (%v)", device.ErrInvalid,
		t.Kind.withArticle(), of, k, k)
}

// ---- lookups ------------------------------------------------------------------

// Get runs a lookup in host memory and returns the number of keys found. It reads the current
// table, or the snapshot at.
func (t *Table) Get(ctx context.Context, method string, at *Snapshot, b *batch.Batch) (hits int, err error) {
	b.MustMatch(t.Name, method)
	lease, err := t.acquireLease(ctx, at, b)
	if err != nil {
		return 0, t.wrap(method, partial(b, 0, nil, err))
	}
	hits, err = t.lookup(ctx, b, lease)
	return hits, t.wrap(method, errors.Join(err, t.releaseLease(at, lease)))
}

func (t *Table) lookup(ctx context.Context, b *batch.Batch, lease *Lease) (hits int, err error) {
	b.Flags = t.Policy.MixedFlags()
	t.setLabels(ctx, b)
	defer t.clearLabels(ctx)
	done, hits, err := t.Engine.Lookup(ctx, nil, lease, b, 0)
	if done == 0 { // the results are unknown
		hits = 0
	}
	return hits, partial(b, done, nil, err)
}

// GetOn submits a lookup of a batch in device memory. The number of keys found is added to the
// counter in counts, if given.
func (t *Table) GetOn(s *device.Stream, method string, at *Snapshot, b *batch.Batch, counts ...device.Slice[uint64]) error {
	return t.submitRead(s, method, at, b, func(lease *Lease) error { return t.submitLookup(s, lease, b, counts) })
}

// submitLookup submits a lookup under a lease.
func (t *Table) submitLookup(s *device.Stream, lease *Lease, b *batch.Batch, counts []device.Slice[uint64]) error {
	to, err := t.Counter(counts)
	if err != nil {
		return err
	}
	_, hits, err := t.Engine.Lookup(context.Background(), s, lease, b, to.Ptr())
	AddCount(to, uint64(hits)) // for an engine on the host; on a GPU the kernel adds the hits
	return err
}

// submitRead takes a lease and calls submit, which submits work that reads the table.
func (t *Table) submitRead(s *device.Stream, method string, at *Snapshot, b *batch.Batch, submit func(*Lease) error) error {
	b.MustMatch(t.Name, method)
	return t.wrap(method, t.submitLeased(s, at, b, submit))
}

func (t *Table) submitLeased(s *device.Stream, at *Snapshot, b *batch.Batch, submit func(*Lease) error) error {
	if err := b.CheckDevice(t.Device, s); err != nil {
		return err
	}
	if err := t.await(context.Background()); err != nil {
		return err
	}
	lease, err := t.acquireLease(context.Background(), at, b)
	if err != nil {
		return err
	}
	b.Flags = t.Policy.MixedFlags()
	err = submit(lease)
	if t.Engine.Caps().Streams {
		lease.AddStream(s) // after the work, because waiting for the streams removes them
	}
	return errors.Join(err, t.releaseLease(at, lease))
}

func (t *Table) await(ctx context.Context) error {
	if a, ok := t.Engine.(Awaiter); ok {
		return a.Await(ctx)
	}
	return nil
}

// Counter returns the counter in counts. See [CounterOf].
func (t *Table) Counter(counts []device.Slice[uint64]) (to device.Slice[uint64], err error) {
	return CounterOf(t.Device, counts)
}

// ---- the writer lock --------------------------------------------------------------

// runLocked runs f under the writer lock. With exclusive, it also excludes readers while f runs.
func (t *Table) runLocked(ctx context.Context, exclusive bool, f func() error) error {
	if err := t.Leases.LockWriter(ctx); err != nil {
		return err
	}
	defer t.Leases.UnlockWriter()
	return t.withExclusive(ctx, exclusive, f)
}

// withExclusive runs f, in an exclusive section if exclusive is set. The caller holds the writer
// lock.
func (t *Table) withExclusive(ctx context.Context, exclusive bool, f func() error) error {
	if exclusive {
		if err := t.Leases.BeginExclusive(ctx); err != nil {
			return err
		}
		defer t.Leases.EndExclusive()
	}
	return f()
}

// needsExclusive reports whether changes need an exclusive section because lookups cannot run
// concurrently with them.
func (t *Table) needsExclusive() bool { return !t.Engine.Caps().ConcurrentReads }

// readCounters waits for submitted work, reads the counters, and stores them in the table.
func (t *Table) readCounters(ctx context.Context) (Counters, error) {
	c, err := t.Engine.ReadCounters(ctx)
	if err != nil {
		return c, err
	}
	c.Dead, c.Exact = c.Used-c.Live, true
	t.bound = c
	t.length.Store(int64(c.Live))
	return c, nil
}

// Clear removes all pairs and keeps the allocated memory.
func (t *Table) Clear(ctx context.Context) error {
	// The engine clears everything even if the context ends.
	return t.maintain(ctx, "Clear", true, func(Counters) error {
		if err := t.reserveLog(ctx, &batch.Batch{}); err != nil {
			return err
		}
		err := t.Engine.Clear(context.WithoutCancel(ctx))
		if err == nil {
			t.ids = ids{}
		}
		return withoutRepeat(err, t.logClear(err))
	})
}

// Compact removes dead slots and memory beyond what the options require.
func (t *Table) Compact(ctx context.Context) error {
	return t.maintain(ctx, "Compact", t.needsExclusive(), func(now Counters) error { return t.Policy.Compact(ctx, now) })
}

// Reserve reserves capacity for n new keys. The policy must be a [Reserver].
func (t *Table) Reserve(ctx context.Context, n int) error {
	return t.maintain(ctx, "Reserve", t.needsExclusive(), func(now Counters) error {
		_, err := t.Policy.(Reserver).Reserve(ctx, now, n)
		return err
	})
}

// maintain runs f on the whole table under the writer lock. It reads exact counters before and
// after f. An exclusive section begins only after submitted changes are done.
func (t *Table) maintain(ctx context.Context, method string, exclusive bool, f func(now Counters) error) error {
	return t.wrap(method, t.runDurable(ctx, false, t.counted(ctx, func(now Counters) error {
		return t.withExclusive(ctx, exclusive, func() error {
			err := f(now)
			_, cerr := t.readCounters(context.WithoutCancel(ctx))
			return errors.Join(err, cerr, t.commit(ctx))
		})
	})))
}

// WithWriteLock runs f under the writer lock with exact counters. f reads the table as a whole, for
// example for statistics.
func (t *Table) WithWriteLock(ctx context.Context, method string, f func(now Counters) error) error {
	return t.wrap(method, t.withWriteLock(ctx, f))
}

func (t *Table) withWriteLock(ctx context.Context, f func(now Counters) error) error {
	return t.runLocked(ctx, false, t.counted(ctx, f))
}

// counted returns a function that reads the counters and passes them to f.
func (t *Table) counted(ctx context.Context, f func(now Counters) error) func() error {
	return func() error {
		now, err := t.readCounters(ctx)
		if err != nil {
			return err
		}
		return f(now)
	}
}

// RunChange runs f under the writer lock. f makes a change itself, waits for it, and returns the
// change in the number of pairs. Afterward RunChange releases memory that the table no longer
// needs.
func (t *Table) RunChange(ctx context.Context, method string, f func() (delta int, err error)) error {
	return t.WithWriteLock(ctx, method, func(Counters) error {
		delta, err := f()
		now, cerr := t.readCounters(context.WithoutCancel(ctx))
		if err = errors.Join(err, cerr); err == nil {
			t.releaseMemory(ctx, now, delta)
		}
		return err
	})
}

// SubmitChange runs f under the writer lock, after setting the flags of b. f submits b itself and
// receives bounds on the counters. If f has read exact counters after b, it returns them.
func (t *Table) SubmitChange(ctx context.Context, method string, b *batch.Batch, f func(bound Counters) (Counters, error)) error {
	return t.wrap(method, t.runLocked(ctx, false, func() error {
		t.setFlags(b)
		now, err := f(t.bound)
		t.bound.addSubmitted(b) // also after an error, because a part may have run
		if now.Exact {
			t.bound = now
			t.length.Store(int64(now.Live))
		}
		return err
	}))
}

// Sync waits for all work submitted to streams and reports the operations that overflowed.
func (t *Table) Sync(ctx context.Context) error {
	err := t.WithWriteLock(ctx, "Sync", func(Counters) error { return t.sync(ctx) })
	if t.journal != nil {
		err = errors.Join(err, t.wrap("Sync", t.journal.Flush(ctx)))
	}
	return err
}

// sync implements Sync. The caller holds the writer lock and has read the counters.
func (t *Table) sync(ctx context.Context) error {
	if err := t.Leases.Current().Wait(ctx); err != nil {
		return err
	}
	dropped, err := t.Engine.ReadDropped(ctx)
	if err == nil {
		err = t.sent.partialError(dropped, t.Policy.Describe())
		t.sent = submissions{}
	}
	return errors.Join(err, t.commit(ctx))
}

// Close waits for running calls and frees the table. Memory under a lease is freed when the lease
// ends. A second Close does nothing.
func (t *Table) Close() error {
	first, err := t.Leases.Close()
	if !first {
		return nil
	}
	t.length.Store(0)
	t.tracked.Closed()
	err = errors.Join(err, t.commit(context.Background()))
	if t.journal != nil {
		err = errors.Join(err, t.journal.Close())
	}
	return t.wrap("Close", errors.Join(err, t.Engine.Close(), t.Leases.Free()))
}
