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
	Slots      int // slots of all buckets, including arrays of remap entries
	Tombstones int // slots of deleted keys; any key may take them

	// Load is Len divided by Slots.
	Load float64
	// Bytes is the size of the table in device memory.
	Bytes int

	// TypeB is the share of buckets with remap entries. Entries is the number of entries that are
	// set.
	TypeB   float64
	Entries int
	// Secondary is the number of keys outside their primary buckets. Displaced is the number of
	// secondary keys in buckets of type B, where they may keep a primary key out (paper, section
	// 5.3, guideline 1).
	Secondary, Displaced int

	// PerHit and PerMiss are the average numbers of buckets that a lookup reads for a present and
	// for an absent key (paper, equations 7 and 9). PerInsert is the average number that an
	// insertion of a new key reads, if it moves no key further than to a bucket with a free slot.
	PerHit, PerMiss, PerInsert float64
	// Model is the theoretical prediction for a large table.
	Model Model
}

// Model is the prediction of the paper's model (section 6) for a table of the same load, with
// random keys and no deletions. TypeB follows equation 4, PerHit equation 7, PerMiss equation 9.
// Entries is less than the number of remapped keys in equation 8, since keys with one tag share an
// entry. PerInsert assumes that remapped keys have gone to the emptiest of all buckets.
type Model struct {
	TypeB, Entries             float64
	PerHit, PerMiss, PerInsert float64
}

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

// Stats returns the statistics. It makes one pass over the table.
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
