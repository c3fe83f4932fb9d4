package linear

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/core"
)

// Stats describes the state of a table.
type Stats struct {
	Len        int // number of keys
	Slots      int // number of slots in the table
	Tombstones int // number of slots of deleted keys

	// Load is the fraction of slots in use, live or dead. The length of searches depends on it.
	Load float64
	// Bytes is the size of the table's device memory.
	Bytes int

	// MeanProbe and MaxProbe describe the number of slots before each key on its path (the
	// article's probe length). A path begins at the first slot of a sector, and a search reads
	// several slots at a time. So at low loads MeanProbe is larger than in the article, but the
	// number of reads is not.
	MeanProbe float64
	MaxProbe  int
}

// String returns the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d keys, %d tombstones in %d slots (load %.3f), %d bytes, probe length mean %.3f max %d",
		s.Len, s.Tombstones, s.Slots, s.Load, s.Bytes, s.MeanProbe, s.MaxProbe)
}

// Stats computes the statistics in one pass over the table's memory.
func (t *table) Stats(ctx context.Context) (s Stats, err error) {
	err = t.core.WithWriteLock(ctx, "Stats", func(now core.Counters) error {
		sum, longest, err := t.policy.engine.probeLengths(ctx)
		s = Stats{
			Len:        int(now.Live),
			Slots:      t.policy.slots(),
			Tombstones: int(now.Dead),
			Bytes:      t.policy.engine.geometry().bytes(),
			MaxProbe:   int(longest),
		}
		s.Load = float64(now.Used) / float64(s.Slots)
		if now.Live > 0 {
			s.MeanProbe = float64(sum) / float64(now.Live)
		}
		return err
	})
	return s, err
}

// Size returns the size of the table's device memory in bytes, after waiting for running changes.
// Unlike Stats, it does not read that memory.
func (t *table) Size(ctx context.Context) (bytes int, err error) {
	err = t.core.WithWriteLock(ctx, "Size", func(core.Counters) error {
		bytes = t.policy.engine.geometry().bytes()
		return nil
	})
	return bytes, err
}
