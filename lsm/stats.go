package lsm

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/core"
)

// Stats describe the state of a map.
type Stats struct {
	Len int // keys
	// Entries is the number of entries in all levels. They are keys, older values of keys, and
	// tombstones.
	Entries int
	// Levels is the number of entries of each level, from the newest on.
	Levels []int
	// Bytes is the size of the map's memory, including memory kept for the next merges. Held is the
	// size of memory that only snapshots use.
	Bytes, Held int
}

// String returns the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d keys, %d entries in levels of %v, %d bytes, %d of snapshots", s.Len, s.Entries, s.Levels, s.Bytes, s.Held)
}

// Stats returns the statistics. It reads only counters, so its cost does not depend on the size of
// the map.
func (t *table) Stats(ctx context.Context) (s Stats, err error) {
	err = t.core.WithWriteLock(ctx, "Stats", func(now core.Counters) error {
		used, held := t.engine.bytes()
		s = Stats{Len: int(now.Live), Entries: int(now.Used), Levels: t.engine.levels(), Bytes: used, Held: held}
		return nil
	})
	return s, err
}
