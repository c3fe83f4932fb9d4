package slab

import (
	"context"
	"fmt"
)

// Stats describe the state of a structure.
type Stats struct {
	Len        int // pairs
	Slots      int // slots of all slabs
	Tombstones int // slots of deleted pairs
	Buckets    int
	// Slabs are the base slabs, one for each bucket and one for keys that look
	// like marks, and those chained behind them.
	Slabs int

	// Utilisation is the share of the slabs' memory that holds pairs (the
	// paper's memory utilisation).
	Utilisation float64
	// Load is the share of slots in use, live or dead.
	Load float64

	// Bytes of device memory, that of the pool included.
	Bytes int
	// FreeUnits are the slabs that the pool can give out before it grows.
	FreeUnits int

	// MeanChain and MaxChain are the slabs of a bucket: what a search for an
	// absent key reads. A MaxChain of 31 stands for 31 or more.
	MeanChain float64
	MaxChain  int
}

// String is the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d pairs, %d tombstones in %d slots (load %.3f); %d buckets, %d slabs (utilisation %.3f), mean %.3f max %d; %d bytes, %d units free",
		s.Len, s.Tombstones, s.Slots, s.Load, s.Buckets, s.Slabs, s.Utilisation, s.MeanChain, s.MaxChain, s.Bytes, s.FreeUnits)
}

// stats measures a table: one pass over the links of its slabs.
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
	pool, err := t.look(ctx)
	if err != nil {
		return Stats{}, wrap("Stats", err)
	}
	chains, err := t.engine.chains(ctx)
	if err != nil {
		return Stats{}, wrap("Stats", err)
	}
	g := t.engine.geometry()
	s := Stats{
		Len:        int(c.live),
		Tombstones: int(c.used - c.live),
		Buckets:    int(g.buckets),
		Slabs:      int(g.buckets) + 1 + pool.Used,
		Bytes:      g.bytes() + t.engine.pool().Pool().Stats().Bytes,
		FreeUnits:  pool.Units - pool.Used,
	}
	s.Slots = s.Slabs * slotsIn(t.widths.Slot)
	s.Load = float64(c.used) / float64(s.Slots)
	s.Utilisation = float64(s.Len*t.widths.Slot) / float64(s.Slabs*slabBytes)
	s.MeanChain = float64(s.Slabs) / float64(s.Buckets+1)
	for length, n := range chains {
		if n > 0 {
			s.MaxChain = length
		}
	}
	return s, nil
}
