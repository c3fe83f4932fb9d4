package linear

import (
	"context"
	"fmt"
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

// stats measures a table: one pass over its memory.
func (t *table) stats(ctx context.Context) (Stats, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return Stats{}, t.errClosed("Stats")
	}
	c, err := t.count(ctx)
	if err != nil {
		return Stats{}, wrap("Stats", err)
	}
	sum, longest, err := t.engine.probeLengths(ctx)
	if err != nil {
		return Stats{}, wrap("Stats", err)
	}
	s := Stats{
		Len:        int(c.live),
		Slots:      t.slots(),
		Tombstones: int(c.used - c.live),
		Bytes:      t.engine.geometry().bytes(),
		MaxProbe:   int(longest),
	}
	s.Load = float64(c.used) / float64(s.Slots)
	if c.live > 0 {
		s.MeanProbe = float64(sum) / float64(c.live)
	}
	return s, nil
}
