package slab

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/internal/core"
)

// Stats describes the state of a structure.
type Stats struct {
	Len        int // pairs
	Slots      int // slots of all slabs
	Tombstones int // slots of deleted pairs
	Buckets    int
	// Slabs counts the base slabs (one for each bucket and one for keys that look like sentinels)
	// and the chained slabs.
	Slabs int

	// Utilization is the share of the slabs' memory that holds pairs (the paper's memory
	// utilization).
	Utilization float64
	// Load is the share of slots in use, live or dead.
	Load float64

	// Bytes is the size of the device memory, including the pool.
	Bytes int
	// FreeUnits is the number of slabs that the pool can hand out before it grows.
	FreeUnits int

	// MeanChain and MaxChain are the slabs per bucket, which a search for an absent key reads. A
	// MaxChain of 31 means 31 or more.
	MeanChain float64
	MaxChain  int
}

// String returns the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d pairs, %d tombstones in %d slots (load %.3f); %d buckets, %d slabs (utilization %.3f), mean %.3f max %d; %d bytes, %d units free",
		s.Len, s.Tombstones, s.Slots, s.Load, s.Buckets, s.Slabs, s.Utilization, s.MeanChain, s.MaxChain, s.Bytes, s.FreeUnits)
}

// Stats measures the structure in one pass over the links of its slabs.
func (t *table) Stats(ctx context.Context) (s Stats, err error) {
	err = t.core.WithWriteLock(ctx, "Stats", func(now core.Counters) error {
		pool, err := t.policy.countPool(ctx)
		if err != nil {
			return err
		}
		chains, err := t.policy.engine.chains(ctx)
		if err == nil {
			s = t.policy.stats(now, pool, chains)
		}
		return err
	})
	return s, err
}

func (p *policy) stats(now core.Counters, pool alloc.Usage, chains [chainLengths]uint64) Stats {
	g := p.engine.geometry()
	s := Stats{
		Len:        int(now.Live),
		Tombstones: int(now.Dead),
		Buckets:    int(g.buckets),
		Slabs:      int(g.buckets) + 1 + pool.Used,
		Bytes:      g.bytes() + p.engine.units().Pool().Stats().Bytes,
		FreeUnits:  pool.Units - pool.Used,
	}
	s.Slots = s.Slabs * slotsIn(p.widths.Slot)
	s.Load = float64(now.Used) / float64(s.Slots)
	s.Utilization = float64(s.Len*p.widths.Slot) / float64(s.Slabs*slabBytes)
	s.MeanChain = float64(s.Slabs) / float64(s.Buckets+1)
	for length, n := range chains {
		if n > 0 {
			s.MaxChain = length
		}
	}
	return s
}
