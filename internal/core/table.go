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

// ChunkOps is the number of changes between two looks at a structure's
// counters, and the room that a batch is sure to get before it starts.
const ChunkOps = 1 << 20

// Table is a map, a set or a multimap without its types.
type Table struct {
	Config

	// What follows is the writer's whose turn it is.
	bound Counters
	sent  sent // to streams since the last Sync
	ids

	// length is the number of pairs when a call returned, or at the last Sync.
	length atomic.Int64

	tracked *observe.Tracked
	labels  bool // for the profiler
}

// New makes a table, which is empty.
func New(c Config) *Table {
	t := &Table{Config: c, bound: Counters{Exact: true}, labels: profiled(c.Device)}
	t.tracked = observe.Track(t, c.Name, c.Logger, (*Table).sizes)
	return t
}

// sizes are the pairs and the bytes of memory that a table has just now.
func (t *Table) sizes() (pairs, bytes int) { return t.Len(), t.Leases.memoryBytes() }

// Open makes a table of memory that holds pairs already: of a file.
func Open(ctx context.Context, c Config) (*Table, error) {
	t := New(c)
	t.others = true
	_, err := t.count(ctx)
	if err != nil {
		t.tracked.Closed() // who has made the parts closes them
	}
	return t, err
}

// wrap says which method of which package an error comes from, once.
func (t *Table) wrap(method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", t.Name, method, err)
}

// partial is the error of a batch that was not run as a whole: rows failed of its first done
// operations. Outputs of what was not run become zero.
func partial(b *batch.Batch, done int, rows []int, err error) error {
	if err == nil {
		return nil
	}
	b.ClearFrom(done)
	return op.Partial(done, rows, err)
}

// Partial is the error of a batch that was not run as a whole.
func (t *Table) Partial(method string, done int, rows []int, err error) error {
	return t.wrap(method, op.Partial(done, rows, err))
}

// Len is the number of pairs: exact for every call that has returned, and for
// batches on the device up to the last Sync. It neither locks nor waits.
func (t *Table) Len() int { return int(t.length.Load()) }

// CheckKind is the error of operations that tables of this kind, with such values,
// don't have: device.ErrInvalid.
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
	return fmt.Errorf("%w: %s%s has no kind %d (%v)", device.ErrInvalid, t.Kind.one(), of, k, k)
}

// ---- lookups ------------------------------------------------------------------

// Get runs a lookup of a batch in host memory, in a table as it is or as a
// snapshot has it, and counts the keys found.
func (t *Table) Get(ctx context.Context, method string, at *Snapshot, b *batch.Batch) (hits int, err error) {
	b.MustMatch(t.Name, method)
	lease, err := t.enter(ctx, at, b)
	if err != nil {
		return 0, t.wrap(method, partial(b, 0, nil, err))
	}
	hits, err = t.look(ctx, b, lease)
	return hits, t.wrap(method, errors.Join(err, t.leave(at, lease)))
}

// look runs a lookup under a lease.
func (t *Table) look(ctx context.Context, b *batch.Batch, lease *Lease) (hits int, err error) {
	b.Flags = t.Policy.Mixed()
	t.label(ctx, b)
	defer t.unlabel(ctx)
	done, hits, err := t.Engine.Look(ctx, nil, lease, b, 0)
	if done == 0 { // what was found did not arrive
		hits = 0
	}
	return hits, partial(b, done, nil, err)
}

// GetOn submits a lookup of a batch on the device. The number of keys found is
// added to counts.
func (t *Table) GetOn(s *device.Stream, method string, at *Snapshot, b *batch.Batch, counts ...device.Slice[uint64]) error {
	return t.readOn(s, method, at, b, func(lease *Lease) error { return t.lookOn(s, lease, b, counts) })
}

// lookOn submits a lookup, under a lease.
func (t *Table) lookOn(s *device.Stream, lease *Lease, b *batch.Batch, counts []device.Slice[uint64]) error {
	to, err := t.Counter(counts)
	if err != nil {
		return err
	}
	_, hits, err := t.Engine.Look(context.Background(), s, lease, b, to.Ptr())
	AddCount(to, uint64(hits)) // of an engine on the host: no kernel has added them
	return err
}

// readOn submits something that reads, under a lease.
func (t *Table) readOn(s *device.Stream, method string, at *Snapshot, b *batch.Batch, submit func(*Lease) error) error {
	b.MustMatch(t.Name, method)
	return t.wrap(method, t.leasedOn(s, at, b, submit))
}

func (t *Table) leasedOn(s *device.Stream, at *Snapshot, b *batch.Batch, submit func(*Lease) error) error {
	if err := b.CheckPlace(t.Device, s); err != nil {
		return err
	}
	if err := t.await(context.Background()); err != nil {
		return err
	}
	lease, err := t.enter(context.Background(), at, b)
	if err != nil {
		return err
	}
	b.Flags = t.Policy.Mixed()
	err = submit(lease)
	if t.Engine.Caps().Streams {
		lease.On(s) // behind the work: whoever waits for the streams forgets them
	}
	return errors.Join(err, t.leave(at, lease))
}

// await waits for an engine that is not ready yet for batches on the device.
func (t *Table) await(ctx context.Context) error {
	if a, ok := t.Engine.(Awaiter); ok {
		return a.Await(ctx)
	}
	return nil
}

// Counter is [CounterOf] the table's device.
func (t *Table) Counter(counts []device.Slice[uint64]) (to device.Slice[uint64], err error) {
	return CounterOf(t.Device, counts)
}

// ---- the writer's turn ----------------------------------------------------------

// turn runs f in a writer's turn, and if there is a bar while no reader is at
// work.
func (t *Table) turn(ctx context.Context, bar bool, f func() error) error {
	if err := t.Leases.Write(ctx); err != nil {
		return err
	}
	defer t.Leases.Release()
	return t.behind(ctx, bar, f)
}

// behind runs f behind a bar, if there is one.
func (t *Table) behind(ctx context.Context, bar bool, f func() error) error {
	if bar {
		if err := t.Leases.Exclude(ctx); err != nil {
			return err
		}
		defer t.Leases.Admit()
	}
	return f()
}

// bars reports whether changes need a bar: the engine cannot have readers beside
// them.
func (t *Table) bars() bool { return !t.Engine.Caps().Beside }

// count reads the counters once submitted work is done.
func (t *Table) count(ctx context.Context) (Counters, error) {
	c, err := t.Engine.Counters(ctx)
	if err != nil {
		return c, err
	}
	c.Dead, c.Exact = c.Used-c.Live, true
	t.bound = c
	t.length.Store(int64(c.Live))
	return c, nil
}

// Clear removes all pairs and keeps the memory.
func (t *Table) Clear(ctx context.Context) error {
	// What is cleared is cleared, whatever becomes of the context.
	return t.rework(ctx, "Clear", true, func(Counters) error {
		err := t.Engine.Clear(context.WithoutCancel(ctx))
		if err == nil {
			t.ids = ids{}
		}
		return err
	})
}

// Compact drops dead slots and memory beyond what the options ask for.
func (t *Table) Compact(ctx context.Context) error {
	return t.rework(ctx, "Compact", t.bars(), func(now Counters) error { return t.Policy.Compact(ctx, now) })
}

// Reserve makes room for n keys that the table does not have. Its policy is a [Reserver].
func (t *Table) Reserve(ctx context.Context, n int) error {
	return t.rework(ctx, "Reserve", t.bars(), func(now Counters) error {
		_, err := t.Policy.(Reserver).Reserve(ctx, now, n)
		return err
	})
}

// rework works on a table as a whole, with exact counters before and after. The
// bar comes behind the changes that the counters wait for.
func (t *Table) rework(ctx context.Context, method string, bar bool, f func(now Counters) error) error {
	return t.Alone(ctx, method, func(now Counters) error {
		return t.behind(ctx, bar, func() error {
			err := f(now)
			_, cerr := t.count(context.WithoutCancel(ctx))
			return errors.Join(err, cerr, t.commit(ctx))
		})
	})
}

// Alone runs something that reads a table as a whole, in a writer's turn: the
// statistics of a structure.
func (t *Table) Alone(ctx context.Context, method string, f func(now Counters) error) error {
	return t.wrap(method, t.alone(ctx, f))
}

func (t *Table) alone(ctx context.Context, f func(now Counters) error) error {
	return t.turn(ctx, false, func() error {
		now, err := t.count(ctx)
		if err != nil {
			return err
		}
		return f(now)
	})
}

// Changed is Alone for a change that a structure runs by itself: f waits for it, and returns by how many keys there are more. What it has set free is given
// back, as behind batches of the core.
func (t *Table) Changed(ctx context.Context, method string, f func() (delta int, err error)) error {
	return t.Alone(ctx, method, func(Counters) error {
		delta, err := f()
		now, cerr := t.count(context.WithoutCancel(ctx))
		if err = errors.Join(err, cerr); err == nil {
			t.after(ctx, now, delta)
		}
		return err
	})
}

// Changing is for something that submits a batch by itself, in a writer's turn, whose flags it sets. f gets bounds of the counters, and returns those that it
// has read behind the batch, if it has: they are Exact.
func (t *Table) Changing(ctx context.Context, method string, b *batch.Batch, f func(bound Counters) (Counters, error)) error {
	return t.wrap(method, t.turn(ctx, false, func() error {
		t.flag(b)
		now, err := f(t.bound)
		t.bound.submitted(b) // also of one that failed: some of it may have been run
		if now.Exact {
			t.bound = now
			t.length.Store(int64(now.Live))
		}
		return err
	}))
}

// Sync waits for what has been submitted to streams and reports operations
// that found no room.
func (t *Table) Sync(ctx context.Context) error {
	return t.Alone(ctx, "Sync", func(Counters) error { return t.sync(ctx) })
}

// sync is Sync in a writer's turn, behind changes: the counters have been read.
func (t *Table) sync(ctx context.Context) error {
	if err := t.Leases.Current().Wait(ctx); err != nil {
		return err
	}
	lost, err := t.Engine.Lost(ctx)
	if err == nil {
		err = t.sent.partial(lost, t.Policy.Describe())
		t.sent = sent{}
	}
	return errors.Join(err, t.commit(ctx))
}

// Close frees the table once calls in flight have ended; memory that a lease
// holds is freed when that ends. Idempotent.
func (t *Table) Close() error {
	first, err := t.Leases.Close()
	if !first {
		return nil
	}
	t.length.Store(0)
	t.tracked.Closed()
	return t.wrap("Close", errors.Join(err, t.commit(context.Background()), t.Engine.Close(), t.Leases.Free()))
}
