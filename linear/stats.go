package linear

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/core"
)

// Stats describe the state of a table.
type Stats struct {
	Len        int // keys
	Slots      int // slots of the table
	Tombstones int // slots of deleted keys

	// Load is the share of slots in use, live or dead. It decides the length of searches.
	Load float64
	// Bytes is the device memory of the table.
	Bytes int

	// MeanProbe and MaxProbe are the number of slots before a key on its path (the article's probe
	// length). Searches begin at the first slot of a sector and read several slots at a time. At
	// low loads MeanProbe is therefore above the article's while the number of reads is not.
	MeanProbe float64
	MaxProbe  int
}

// String returns the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d keys, %d tombstones in %d slots (load %.3f), %d bytes, probe length mean %.3f max %d",
		s.Len, s.Tombstones, s.Slots, s.Load, s.Bytes, s.MeanProbe, s.MaxProbe)
}

// Stats measures the structure in one pass over its memory.
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

// Size returns the device memory of the table in bytes, after changes under way. Unlike Stats it
// reads none of it.
func (t *table) Size(ctx context.Context) (bytes int, err error) {
	err = t.core.WithWriteLock(ctx, "Size", func(core.Counters) error {
		bytes = t.policy.engine.geometry().bytes()
		return nil
	})
	return bytes, err
}
