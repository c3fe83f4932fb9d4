package sorted

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/core"
)

// Stats describe the state of a map.
type Stats struct {
	Len int // keys
	// Bytes of memory: of the pairs, and of what is kept for the next merge. Memory that
	// only snapshots hold is not counted.
	Bytes int
}

// String is the statistics in one line.
func (s Stats) String() string { return fmt.Sprintf("%d keys, %d bytes", s.Len, s.Bytes) }

// Stats counts, without a pass over the memory.
func (t *table) Stats(ctx context.Context) (s Stats, err error) {
	err = t.core.Alone(ctx, "Stats", func(now core.Counters) error {
		s = Stats{Len: int(now.Live), Bytes: t.engine.bytes()}
		return nil
	})
	return s, err
}
