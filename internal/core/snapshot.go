package core

import (
	"context"
	"errors"
	"sync"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Versioner is an engine with readable older versions. Lookups, Expand and Export read the version
// of their batch, and Extent that of its lease, if that is not 0, in the generation of the lease.
// Clear also keeps what versions need.
type Versioner interface {
	// Pin keeps the current version until Unpin, and returns 0 if its generation never changes. The
	// caller of both holds the writer lock. Pin runs after all changes, and Unpin when nothing
	// reads the version any more. Versions pinned when the table is closed end with their
	// generation, without Unpin.
	Pin(ctx context.Context) (version uint64, err error)
	Unpin(ctx context.Context, version uint64) error
}

// Snapshot is a table as it was at one moment. It holds memory of the table until it is closed and
// calls on it have ended, and blocks no call. Methods of the table that read take it, from many
// goroutines.
//
// Without a version it is a lease that user code holds: an iteration over a table that has no
// versions.
type Snapshot struct {
	table  *Table
	lease  *Lease
	pinned bool
	pairs  int

	mu     sync.Mutex
	users  int // calls on it, plus one until it is closed
	closed bool
}

// Snapshot takes a snapshot of a table. The engine is a [Versioner]. The snapshot sees every call
// that has returned and every batch submitted before.
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

// snapshotOrHold returns what an iteration reads: a snapshot if the table has versions, otherwise
// the current generation.
func (t *Table) snapshotOrHold(ctx context.Context) (*Snapshot, error) {
	if _, ok := t.Engine.(Versioner); ok {
		return t.snapshot(ctx)
	}
	return t.holdCurrent(ctx)
}

// holdCurrent holds the current generation.
func (t *Table) holdCurrent(ctx context.Context) (*Snapshot, error) {
	lease, err := t.Leases.Hold(ctx)
	if err != nil {
		return nil, err
	}
	return &Snapshot{table: t, lease: lease, users: 1}, nil
}

// acquireLease takes a lease for a call, on the current table or on a snapshot of it. releaseLease
// ends it.
func (t *Table) acquireLease(ctx context.Context, at *Snapshot, b *batch.Batch) (*Lease, error) {
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

// releaseLease ends a call.
func (t *Table) releaseLease(at *Snapshot, lease *Lease) error {
	err := lease.End()
	if at != nil {
		err = errors.Join(err, at.removeUser())
	}
	return err
}

// addUser keeps the snapshot's version for a call.
func (s *Snapshot) addUser() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return op.ErrClosed
	}
	s.users++
	return nil
}

// removeUser ends a use. The last one releases version and memory, after lookups that callers have
// submitted.
func (s *Snapshot) removeUser() (err error) {
	s.mu.Lock()
	s.users--
	last := s.users == 0
	s.mu.Unlock()
	if !last {
		return nil
	}
	ctx, t := context.Background(), s.table
	if s.pinned && t.Leases.LockWriter(ctx) == nil { // fails only if the table has been closed
		err = errors.Join(s.lease.Wait(ctx), t.Engine.(Versioner).Unpin(ctx, s.lease.Version))
		t.Leases.UnlockWriter()
	}
	return errors.Join(err, s.lease.End())
}

// Close releases the snapshot's version and memory as soon as calls on it have ended. Idempotent;
// later calls on it return op.ErrClosed.
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
