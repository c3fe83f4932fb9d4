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

	// Load is the share of slots in use, live or dead: what decides the length
	// of searches.
	Load float64
	// Bytes of device memory of the table.
	Bytes int

	// MeanProbe and MaxProbe are how many slots lie before a key on its path
	// (the article's probe length). Searches read a sector of several slots at
	// a time and begin at its first, so at low loads MeanProbe is above the
	// article's while the number of reads is not.
	MeanProbe float64
	MaxProbe  int
}

// String is the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d keys, %d tombstones in %d slots (load %.3f), %d bytes, probe length mean %.3f max %d",
		s.Len, s.Tombstones, s.Slots, s.Load, s.Bytes, s.MeanProbe, s.MaxProbe)
}

// Stats measures the structure: one pass over its memory.
func (t *table) Stats(ctx context.Context) (s Stats, err error) {
	err = t.core.Alone(ctx, "Stats", func(now core.Counters) error {
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

// Size is the device memory of the table in bytes, once changes under way are done. Unlike Stats it reads
// none of it.
func (t *table) Size(ctx context.Context) (bytes int, err error) {
	err = t.core.Alone(ctx, "Size", func(core.Counters) error {
		bytes = t.policy.engine.geometry().bytes()
		return nil
	})
	return bytes, err
}
