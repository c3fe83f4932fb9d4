package core

import (
	"context"
	"errors"
	"sync"

	"github.com/weftgo/weft/internal/batch"
)

// Versioner is an engine that can be read as it was: lookups, Expand and Export
// read the version of their batch, if that is not 0.
type Versioner interface {
	// Pin keeps the present version until Unpin. Both come in a writer's turn,
	// behind all changes.
	Pin(ctx context.Context) (version uint64, err error)
	Unpin(ctx context.Context, version uint64) error
}

// Snapshot is a table as it was at one moment. It holds memory of the table
// until it is closed, and blocks nobody.
type Snapshot struct {
	table   *Table
	lease   *Lease
	version uint64
	close   sync.Once
}

// Snapshot takes one of a table whose engine is a [Versioner]: it sees every
// call that has returned and every batch submitted before.
func (t *Table) Snapshot(ctx context.Context) (s *Snapshot, err error) {
	err = t.Alone(ctx, "Snapshot", func(Counters) error {
		lease, err := t.Leases.Hold(ctx)
		if err != nil {
			return err
		}
		version, err := t.Engine.(Versioner).Pin(ctx)
		if err != nil {
			return errors.Join(err, lease.End())
		}
		s = &Snapshot{table: t, lease: lease, version: version}
		return nil
	})
	return s, err
}

// Get runs a lookup of a batch in host memory and counts the keys found.
func (s *Snapshot) Get(ctx context.Context, method string, b *batch.Batch) (hits int, err error) {
	b.Version = s.version
	return s.table.get(ctx, method, b, s.lease)
}

// Expand is [Table.Expand].
func (s *Snapshot) Expand(ctx context.Context, method string, b *batch.Batch, offsets []uint64, memory func(rows int) batch.Column) error {
	b.Version = s.version
	return s.table.expandAt(ctx, method, b, s.lease, offsets, memory)
}

// Close lets the snapshot's version and memory go. Idempotent.
func (s *Snapshot) Close() (err error) {
	s.close.Do(func() {
		ctx := context.Background()
		err = s.table.Alone(ctx, "Snapshot", func(Counters) error {
			return s.table.Engine.(Versioner).Unpin(ctx, s.version)
		})
		err = errors.Join(err, s.lease.End())
	})
	return err
}
