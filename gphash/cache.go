package gphash

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/pm"
)

// The cache of buckets (section 3.3): control words and tags of those that are read most lie in
// the memory of the GPU, too, and lookups read them there. Which they are changes only when
// the cache is loaded; in between, changes write through. The paper counts the lookups that
// use a bucket of the cache before it is overwritten; here loading takes all buckets out,
// waits for the lookups that were under way, and puts the hottest in, while new ones read
// the pool.

// CachePolicy says which buckets LoadCache puts into the cache of a GPU: those of the highest heat,
// a number for each bucket in the memory of the GPU, of which 0 stays out. Between two loads they stay
// the same ("GPHash", section 3.3, which leaves the policy open and is measured with LFU). On
// a CPU it changes nothing.
type CachePolicy uint8

const (
	// LFU, the default, caches the buckets that are read most often, and lately: each lookup adds
	// one to the heat of a bucket that it reads, and each load halves all of them.
	LFU CachePolicy = iota
	// LRU caches the buckets that were read last, counting time in loads: a lookup sets the heat of
	// a bucket to the number of the next load. It writes only what differs, less than LFU does.
	LRU
	// Random caches any buckets, others at each load. Lookups note no heat.
	Random
)

// cache is what a launcher has of it.
type cache struct {
	policy   CachePolicy
	share    float64
	buf      device.Buffer // words of buckets
	capacity uint64        // buckets
	loads    uint32        // the number of the next one, from 1 on: 0 is the heat of what nobody has read
}

// bucketBytes is what the cache has of a bucket.
func (t *table) bucketBytes() int { return int(2 * t.slots * pm.Word) }

// fit gives the cache memory for its share of the buckets, if they have become more. Nobody reads it.
func (c *cache) fit(dev device.Device, t *table) error {
	capacity := uint64(c.share * float64(t.slotsIn(t.live)/t.slots))
	if capacity <= c.capacity {
		return nil
	}
	buf, err := dev.Alloc(int(capacity) * t.bucketBytes())
	if err != nil {
		return err
	}
	if c.buf.Size > 0 {
		err = dev.Free(c.buf)
	}
	c.buf, c.capacity = buf, capacity
	return err
}

// LoadCache fills the cache with the buckets that have been read most since it was loaded last, beside
// lookups. Without a cache it does nothing.
func (x *Index) LoadCache(ctx context.Context) error { return loadCache(ctx, x.core, x.engine) }

// LoadCache fills the cache with the buckets that have been read most since it was loaded last, beside
// lookups. Without a cache it does nothing.
func (m *Map[K, V]) LoadCache(ctx context.Context) error { return loadCache(ctx, m.core, m.engine) }

func loadCache(ctx context.Context, t *core.Table, e *engine) error {
	return t.Alone(ctx, "LoadCache", func(core.Counters) error {
		if g, ok := e.far.(*gpuEngine); ok && g.k.cache.share > 0 {
			return g.loadCache()
		}
		return nil
	})
}

func (g *gpuEngine) loadCache() error {
	k := &g.k
	n := int(k.host.slotsIn(k.host.live) / k.host.slots)
	var size prim.Carve
	newSorting(&size, n)
	work, err := k.loans.take(int(size))
	if err != nil {
		return err
	}
	defer work.behind(g.Stream)
	at := prim.Carve(work.buf.Ptr)
	heat := newSorting(&at, n)
	p := cacheParams{table: k.table.Load().ref, heat: heat.From.Keys, n: uint64(n)}
	err = g.Do(all, func(s *device.Stream) error {
		return errors.Join(device.Launch(s, k.cacheEmpty, gpu.Wave(k.dev, n), gpu.Block, &p),
			k.prim.Sort(s, &heat.Sort, heat.scratch))
	})
	if err == nil { // who reads the cache, and counts that
		err = g.apart(func(s *device.Stream) error { return s.Fill(p.table.cacheRead, 0, 4) })
	}
	if err != nil {
		return err
	}
	if err := k.cache.fit(k.dev, k.host.table); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	k.cache.loads++
	if err := g.show(); err != nil { // its new place, if it has one
		return err
	}
	p = cacheParams{table: k.table.Load().ref, heat: heat.To.Keys, rows: heat.To.Vals, n: uint64(n), capacity: k.cache.capacity}
	return g.Do(all, func(s *device.Stream) error {
		return device.Launch(s, k.cacheFill, gpu.Wave(k.dev, warp*int(p.capacity)), gpu.Block, &p)
	})
}

// apart does something while no lookup is at work.
func (g *gpuEngine) apart(do func(s *device.Stream) error) error {
	if err := g.Leases.Exclude(all); err != nil {
		return err
	}
	defer g.Leases.Admit()
	return g.Do(all, do)
}

// cacheStats reads what the cache has been good for.
func (g *gpuEngine) cacheStats(ctx context.Context, s *Stats) error {
	c := &g.k.cache
	if c.share == 0 {
		return nil
	}
	var reads [2]uint64
	err := g.apart(func(stream *device.Stream) error {
		return stream.CopyOut(ctx, device.Bytes(reads[:]), g.k.word(wordReads))
	})
	s.CacheBytes = c.buf.Size
	if reads[0] > 0 {
		s.CacheHitRate = float64(reads[1]) / float64(reads[0])
	}
	return err
}
