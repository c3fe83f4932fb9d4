package lsm

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/core"
)

// Stats describe the state of a map.
type Stats struct {
	Len int // keys
	// Entries of all levels: of keys, of older values of theirs, and tombstones.
	Entries int
	// Levels are the numbers of entries of each level, from the newest on.
	Levels []int
	// Bytes of memory: of the levels, and of what is kept for the next merges. Held are the bytes that
	// only snapshots have.
	Bytes, Held int
}

// String is the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d keys, %d entries in levels of %v, %d bytes, %d of snapshots", s.Len, s.Entries, s.Levels, s.Bytes, s.Held)
}

// Stats counts, without a pass over the memory.
func (t *table) Stats(ctx context.Context) (s Stats, err error) {
	err = t.core.Alone(ctx, "Stats", func(now core.Counters) error {
		used, held := t.engine.bytes()
		s = Stats{Len: int(now.Live), Entries: int(now.Used), Levels: t.engine.levels(), Bytes: used, Held: held}
		return nil
	})
	return s, err
}
