package slab

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/internal/core"
)

// Stats describes the size and memory of a structure.
type Stats struct {
	Len        int // number of pairs
	Slots      int // number of slots in all slabs
	Tombstones int // number of slots of deleted pairs
	Buckets    int
	// Slabs counts base slabs and chained slabs. Each bucket has a base slab, and so has the extra
	// bucket for keys that equal sentinels.
	Slabs int

	// Utilization is the paper's memory utilization: the share of slabs' memory that holds pairs.
	Utilization float64
	// Load is the share of slots in use, by live or deleted pairs.
	Load float64

	// Bytes is the size of all device memory, including the pool.
	Bytes int
	// FreeUnits is the number of slabs that can be allocated before the pool grows.
	FreeUnits int

	// MeanChain and MaxChain are the mean and maximum number of slabs per bucket, which a search
	// for an absent key reads. A MaxChain of 31 means 31 or more.
	MeanChain float64
	MaxChain  int
}

// String returns the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d pairs, %d tombstones in %d slots (load %.3f); %d buckets, %d slabs (utilization %.3f), mean %.3f max %d; %d bytes, %d units free",
		s.Len, s.Tombstones, s.Slots, s.Load, s.Buckets, s.Slabs, s.Utilization, s.MeanChain, s.MaxChain, s.Bytes, s.FreeUnits)
}

// Stats measures the structure by reading the links of all slabs.
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
