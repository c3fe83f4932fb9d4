package horton

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/bucketmodel"
	"github.com/weftgo/weft/internal/core"
)

// Stats describe the state of a table.
type Stats struct {
	Len        int // keys
	Slots      int // slots of the table, with those that are remap entries
	Tombstones int // slots of deleted keys, which any key may take

	// Load is the share of slots with keys.
	Load float64
	// Bytes is the device memory of the table.
	Bytes int

	// TypeB is the share of buckets with remap entries. Entries is the number of entries set.
	TypeB   float64
	Entries int
	// Secondary is the number of keys outside their primary buckets. Displaced counts those of them
	// in buckets of type B: there they may keep a primary key out (paper, section 5.3, guideline
	// 1).
	Secondary, Displaced int

	// PerHit and PerMiss are the number of buckets that a lookup reads for a present and for an
	// absent key, on average over all keys (paper, equations 7 and 9). PerInsert is the number that
	// the insertion of a new key reads if no other key has to move further than to a bucket with a
	// free slot.
	PerHit, PerMiss, PerInsert float64
	// Model is the prediction of theory for a large table.
	Model Model
}

// Model is the prediction of the paper's model for a table of that load with random keys and
// without deletions (section 6): TypeB by equation 4, PerHit by 7, PerMiss by 9. Entries are fewer
// than the remapped keys of equation 8, since keys of one tag share an entry. PerInsert assumes
// that those keys have gone to the emptiest of all buckets.
type Model struct {
	TypeB, Entries             float64
	PerHit, PerMiss, PerInsert float64
}

// model returns the model of a table with a load and a number of buckets.
func (l layout) model(load, buckets float64) Model {
	h := bucketmodel.Horton{Slots: l.slots, Load: load, Tags: int(l.entries())}
	return Model{h.TypeB(), h.EntriesSet() * buckets, h.PerHit(), h.PerMiss(), h.PerInsert(functions)}
}

// String returns the statistics in one line.
func (s Stats) String() string {
	m := s.Model
	return fmt.Sprintf("%d keys (%d secondary, %d displaced), %d tombstones in %d slots (load %.3f), %d bytes, "+
		"type B %.3f (model %.3f) with %d entries (%.0f), buckets per hit %.3f (%.3f), per miss %.3f (%.3f), per insert %.3f (%.3f)",
		s.Len, s.Secondary, s.Displaced, s.Tombstones, s.Slots, s.Load, s.Bytes,
		s.TypeB, m.TypeB, s.Entries, m.Entries, s.PerHit, m.PerHit, s.PerMiss, m.PerMiss, s.PerInsert, m.PerInsert)
}

// Stats measures the structure in one pass over its memory.
func (t *table) Stats(ctx context.Context) (s Stats, err error) {
	err = t.core.WithWriteLock(ctx, "Stats", func(now core.Counters) error {
		c, err := t.engine.countBuckets(ctx)
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
		s.Model = t.layout.model(s.Load, buckets)
		if now.Live > 0 {
			s.PerHit += float64(c.secondary) / float64(now.Live)
		}
		return err
	})
	return s, err
}
