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
	Tombstones int // slots of deleted keys; any key may take them
	Stashed    int // keys in the stash, which only tables with buckets of one slot have

	// Load is Len divided by Slots.
	Load float64
	// Bytes is the size of the table in device memory.
	Bytes int

	// PerHit and PerMiss are the average numbers of buckets that a lookup with StopAtHit reads for
	// a present and for an absent key. (The paper expects 1.5 and 2 with LoadBalancing: Horton
	// tables, section 3.2.) PerInsert is the average number that an insertion of a new key reads,
	// to find the key or a slot, before any key is moved.
	PerHit, PerMiss, PerInsert float64
	// Model is the theoretical prediction for a large table.
	Model Model
}

// Model is the prediction of PerHit, PerMiss and PerInsert for a table with random keys and no
// deletions. Model is zero if buckets have one slot. The paper's 1.5 for LoadBalancing assumes that
// a key is in either bucket equally often. Here a key goes to its first bucket if both have equally
// many free slots. A CPU processes the keys of a large batch in its own order, so its numbers
// differ.
type Model struct{ PerHit, PerMiss, PerInsert float64 }

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

// Stats returns the statistics. It makes one pass over the table.
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
		// A search for an absent key continues after a bucket in which every slot has been used.
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
