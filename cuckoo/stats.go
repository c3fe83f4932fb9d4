package cuckoo

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/bucketmodel"
	"github.com/weftgo/weft/internal/core"
)

// Stats describe the state of a table.
type Stats struct {
	Len        int // keys
	Slots      int // slots of the table and its stash
	Tombstones int // slots of deleted keys, which any key may take
	Stashed    int // keys in the stash: with buckets of one slot only

	// Load is the share of slots with keys.
	Load float64
	// Bytes is the device memory of the table.
	Bytes int

	// PerHit and PerMiss are the number of buckets that a lookup with StopAtHit reads for a present
	// and for an absent key, on average over all keys. (Horton tables, section 3.2: 1.5 and 2 with
	// LoadBalancing.) PerInsert is the number that the insertion of a new key reads, in search of
	// the key and of a slot, before any key is moved.
	PerHit, PerMiss, PerInsert float64
	// Model is the prediction of theory for a large table.
	Model Model
}

// Model is the number of buckets that lookups with StopAtHit, and insertions, read on average in a
// table of random keys without deletions. (The article's 1.5 for LoadBalancing assumes keys that
// are in either bucket equally often. Here a key goes to its first if both have as many free slots.
// A CPU processes the keys of a large batch in its own order, so its figures differ.) Model is zero
// with buckets of one slot, which have no model.
type Model struct{ PerHit, PerMiss, PerInsert float64 }

// model returns the model of a table at a load.
func (m *mode) model(load float64) Model {
	at := bucketmodel.Cuckoo{Slots: m.layout.slots, Load: load}
	switch {
	case at.Slots == 1:
		return Model{}
	case m.loadBalancing:
		b := bucketmodel.Balanced(at)
		return Model{b.PerHit(), b.PerMiss(), b.PerInsert()}
	}
	f := bucketmodel.FirstFit(at)
	return Model{f.PerHit(), f.PerMiss(), f.PerInsert()}
}

// String returns the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d keys (%d stashed), %d tombstones in %d slots (load %.3f), %d bytes, "+
		"buckets per hit %.3f (model %.3f), per miss %.3f (model %.3f), per insert %.3f (model %.3f)",
		s.Len, s.Stashed, s.Tombstones, s.Slots, s.Load, s.Bytes, s.PerHit, s.Model.PerHit, s.PerMiss, s.Model.PerMiss, s.PerInsert, s.Model.PerInsert)
}

// Stats measures the structure in one pass over its memory.
func (t *table) Stats(ctx context.Context) (s Stats, err error) {
	err = t.core.WithWriteLock(ctx, "Stats", func(now core.Counters) error {
		c, err := t.engine.countBuckets(ctx)
		g := t.engine.geometry()
		s = Stats{
			Len: int(now.Live), Slots: int(g.lines) * lineBytes / t.layout.slotBytes, Tombstones: int(now.Dead), Stashed: int(c.stashed),
			Bytes: g.bytes(), PerHit: 1, PerMiss: 1,
		}
		s.Load = float64(now.Live) / float64(s.Slots)
		s.Model = t.model(s.Load)
		if now.Live > 0 {
			s.PerHit += float64(c.passed) / float64(now.Live)
		}
		// A miss goes on after a bucket without a never-used slot.
		continues := float64(c.full) / float64(g.buckets)
		if t.loadBalancing {
			continues = 1
		}
		p := continues
		for range g.functions - 1 {
			s.PerMiss += p
			p *= continues
		}
		s.PerInsert = s.PerMiss
		if g.stash > 0 {
			s.PerMiss += p
		}
		return err
	})
	return s, err
}
