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
	Leaves    int // that the pairs are in
	Snapshots int // that are held, and iterations under way
	Kept      int // leaves that only snapshots have
	Free      int // leaves that there is memory for

	// Fill is the share of the slots of the Leaves in use.
	Fill float64
	// Bytes of memory of leaves and indexes.
	Bytes int
}

// String is the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d keys in %d leaves (fill %.3f), %d leaves of %d snapshots, %d free, %d bytes",
		s.Len, s.Leaves, s.Fill, s.Kept, s.Snapshots, s.Free, s.Bytes)
}

// Stats counts what the structure has.
func (m *Map[K, V]) Stats(ctx context.Context) (s Stats, err error) {
	err = m.core.Alone(ctx, "Stats", func(now core.Counters) error {
		u, err := m.policy.engine.usage()
		if err != nil {
			return err
		}
		s = Stats{
			Len: int(now.Live), Leaves: u.leaves, Snapshots: u.versions, Kept: u.room - u.free - u.leaves, Free: u.free, Bytes: u.bytes,
		}
		if u.leaves > 0 {
			s.Fill = float64(now.Live) / float64(u.leaves*leafPairs)
		}
		return nil
	})
	return s, err
}

// closed frees what an engine has that was never used, behind an error.
func closed(e engine, err error) error { return errors.Join(err, e.Current().Parts.Free(), e.Close()) }
