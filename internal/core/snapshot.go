package core

import (
	"context"
	"errors"
	"sync"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Versioner is an engine that keeps older versions readable. Lookup, Expand and Export read the
// version of their batch if it is not 0; Extent reads the version of its lease. The lease
// determines the generation. Clear also keeps the memory that pinned versions need.
type Versioner interface {
	// Pin keeps the current version readable until Unpin. It returns 0 if the content of the
	// current generation never changes. The caller of both holds the writer lock. Pin runs after
	// all changes are done, and Unpin after the last reader of the version. When the table is
	// closed, pinned versions end with their generation, without Unpin.
	Pin(ctx context.Context) (version uint64, err error)
	Unpin(ctx context.Context, version uint64) error
}

// Snapshot is a table as it was at one moment. It holds memory of the table until it is closed and
// its calls have ended, but blocks no other call. Many goroutines may pass it to the table's
// reading methods.
//
// If the table has no versions, a Snapshot is a lease that user code holds, for an iteration.
type Snapshot struct {
	table  *Table
	lease  *Lease
	pinned bool
	pairs  int

	mu     sync.Mutex
	users  int // running calls, plus one until the snapshot is closed
	closed bool
}

// Snapshot returns a snapshot of the table. The engine must be a [Versioner]. The snapshot sees
// every call that has returned and every batch submitted before it.
func (t *Table) Snapshot(ctx context.Context, method string) (s *Snapshot, err error) {
	s, err = t.snapshot(ctx)
	return s, t.wrap(method, err)
}

func (t *Table) snapshot(ctx context.Context) (s *Snapshot, err error) {
	err = t.withWriteLock(ctx, func(now Counters) (err error) {
		if s, err = t.holdCurrent(ctx); err != nil {
			return err
		}
		if s.lease.Version, err = t.Engine.(Versioner).Pin(ctx); err != nil {
			return errors.Join(err, s.Close())
		}
		s.pinned, s.pairs = true, int(now.Live)
		return nil
	})
	return s, err
}

// snapshotOrHold returns the Snapshot that an iteration reads: a new version if the engine has
// versions, otherwise the current generation.
func (t *Table) snapshotOrHold(ctx context.Context) (*Snapshot, error) {
	if _, ok := t.Engine.(Versioner); ok {
		return t.snapshot(ctx)
	}
	return t.holdCurrent(ctx)
}

// holdCurrent returns a Snapshot that holds the current generation, without a version.
func (t *Table) holdCurrent(ctx context.Context) (*Snapshot, error) {
	lease, err := t.Leases.Hold(ctx)
	if err != nil {
		return nil, err
	}
	return &Snapshot{table: t, lease: lease, users: 1}, nil
}

// acquireLease takes a lease for a call that reads the current table or a snapshot. releaseLease
// ends the lease.
func (t *Table) acquireLease(ctx context.Context, at *Snapshot, b *batch.Batch) (*Lease, error) {
	if t.journal != nil {
		if err := t.journal.Readable(); err != nil {
			return nil, err
		}
	}
	if at == nil {
		return t.Leases.Read(ctx, nil)
	}
	if err := at.addUser(); err != nil {
		return nil, err
	}
	lease, err := t.Leases.Read(ctx, at.lease)
	if err != nil {
		return nil, errors.Join(err, at.removeUser())
	}
	b.Version = lease.Version
	return lease, nil
}

func (t *Table) releaseLease(at *Snapshot, lease *Lease) error {
	err := lease.End()
	if at != nil {
		err = errors.Join(err, at.removeUser())
	}
	return err
}

// addUser counts a call on the snapshot, so that the version is kept until the call ends.
func (s *Snapshot) addUser() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return op.ErrClosed
	}
	s.users++
	return nil
}

// removeUser ends the count of one call. The last removal waits for lookups on streams and then
// releases the version and the memory.
func (s *Snapshot) removeUser() (err error) {
	s.mu.Lock()
	s.users--
	last := s.users == 0
	s.mu.Unlock()
	if !last {
		return nil
	}
	ctx, t := context.Background(), s.table
	if s.pinned && t.Leases.LockWriter(ctx) == nil { // fails only if the table is closed
		err = errors.Join(s.lease.Wait(ctx), t.Engine.(Versioner).Unpin(ctx, s.lease.Version))
		t.Leases.UnlockWriter()
	}
	return errors.Join(err, s.lease.End())
}

// Close releases the snapshot's version and memory as soon as its calls have ended. Later calls on
// the snapshot return op.ErrClosed. A second Close does nothing.
func (s *Snapshot) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if !first {
		return nil
	}
	return s.table.wrap("Snapshot", s.removeUser())
}

// Len returns the number of pairs.
func (s *Snapshot) Len() int { return s.pairs }
