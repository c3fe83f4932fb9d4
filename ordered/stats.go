package ordered

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/internal/core"
)

// Stats describe the state of a map.
type Stats struct {
	Len       int // pairs
	Leaves    int // leaves that the map uses now
	Snapshots int // snapshots and iterations that are open
	Kept      int // leaves that only snapshots use
	Free      int // free leaves that have memory

	// Fill is Len divided by the number of slots in Leaves.
	Fill float64
	// Bytes is the size of the memory for leaves and indexes.
	Bytes int
}

// String returns the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d keys in %d leaves (fill %.3f), %d leaves of %d snapshots, %d free, %d bytes",
		s.Len, s.Leaves, s.Fill, s.Kept, s.Snapshots, s.Free, s.Bytes)
}

// Stats returns the statistics. On a GPU it waits for changes and searches for free leaves.
func (m *Map[K, V]) Stats(ctx context.Context) (s Stats, err error) {
	err = m.core.WithWriteLock(ctx, "Stats", func(now core.Counters) error {
		u, err := m.policy.engine.usage()
		if err != nil {
			return err
		}
		s = Stats{
			Len: int(now.Live), Leaves: u.leaves, Snapshots: u.versions, Kept: u.capacity - u.free - u.leaves, Free: u.free, Bytes: u.bytes,
		}
		if u.leaves > 0 {
			s.Fill = float64(now.Live) / float64(u.leaves*leafPairs)
		}
		return nil
	})
	return s, err
}

// closeUnused frees an engine that was never used, after an error.
func closeUnused(e engine, err error) error {
	return errors.Join(err, e.Current().Parts.Free(), e.Close())
}
