package horton

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/core"
)

// Stats describe the state of a table.
type Stats struct {
	Len        int // keys
	Slots      int // slots of the table, with those that are remap entries
	Tombstones int // slots of deleted keys, which any key may take

	// Load is the share of slots with keys.
	Load float64
	// Bytes of device memory of the table.
	Bytes int

	// TypeB is the share of buckets with remap entries, of which Entries are set.
	TypeB   float64
	Entries int
	// Secondary are keys outside of their primary buckets, Displaced those of them
	// that are in buckets of type B: there they may keep a primary key out (paper,
	// section 5.3, guideline 1).
	Secondary, Displaced int

	// PerHit and PerMiss are how many buckets a lookup reads of a key that is there,
	// and of one that is not, on average over all keys (paper, equations 7 and 9).
	// PerInsert is how many one of a new key reads if no other key has to move further
	// than to a bucket with a free slot.
	PerHit, PerMiss, PerInsert float64
}

// String is the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d keys (%d secondary, %d displaced), %d tombstones in %d slots (load %.3f), %d bytes, type B %.3f with %d entries, buckets per hit %.3f, per miss %.3f, per insert %.3f",
		s.Len, s.Secondary, s.Displaced, s.Tombstones, s.Slots, s.Load, s.Bytes, s.TypeB, s.Entries, s.PerHit, s.PerMiss, s.PerInsert)
}

// Stats measures the structure: one pass over its memory.
func (t *table) Stats(ctx context.Context) (s Stats, err error) {
	err = t.core.Alone(ctx, "Stats", func(now core.Counters) error {
		c, err := t.engine.census(ctx)
		g := t.engine.geometry()
		buckets := float64(g.buckets)
		s = Stats{
			Len: int(now.Live), Slots: int(g.buckets) << g.shift, Tombstones: int(now.Dead), Bytes: g.bytes(),
			TypeB: float64(c.arrays) / buckets, Entries: int(c.entries),
			Secondary: int(c.secondary), Displaced: int(c.displaced),
			PerHit:    1,
			PerMiss:   1 + float64(c.entries)/float64(t.layout.entries())/buckets,
			PerInsert: 1 + functions*float64(c.full)/buckets,
		}
		s.Load = float64(now.Live) / float64(s.Slots)
		if now.Live > 0 {
			s.PerHit += float64(c.secondary) / float64(now.Live)
		}
		return err
	})
	return s, err
}
