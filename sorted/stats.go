package sorted

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/core"
)

// Stats describe the state of a map.
type Stats struct {
	Len int // keys
	// Bytes is the size of the map's memory, including memory kept for the next merge. Held is the
	// size of memory that only snapshots use.
	Bytes, Held int
}

// String returns the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d keys, %d bytes, %d of snapshots", s.Len, s.Bytes, s.Held)
}

// Stats returns the statistics. It reads only counters, so its cost does not depend on the size of
// the map.
func (t *table) Stats(ctx context.Context) (s Stats, err error) {
	err = t.core.WithWriteLock(ctx, "Stats", func(now core.Counters) error {
		used, held := t.engine.bytes()
		s = Stats{Len: int(now.Live), Bytes: used, Held: held}
		return nil
	})
	return s, err
}
