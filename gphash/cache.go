package gphash

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
)

// The cache of buckets (section 3.3) copies the control words and tags of the hottest buckets to
// the GPU's memory. Lookups read the copies. The set of cached buckets changes only when the cache
// is loaded. Between two loads, changes write through to it. The paper counts the lookups that use
// a cached bucket before it is overwritten. Here a load empties the cache, waits for the lookups in
// flight, and copies the hottest buckets while new lookups read the pool.
//
// With a mirror, which covers all buckets, the cache holds values instead. A hot key shares its
// buckets with cold keys, but a cached value belongs to a hot key alone. Values are identified by
// their place in the pool, so they stay cached when keys move. When a value replaces another one,
// it takes over the cache entry. Only lookups without a concurrent change read cached values. An
// atomic batch reassigns cache entries when it runs, before it is published. Until then, lookups
// read the value from the pool; if the batch is refused, they continue to do so.

// CachePolicy selects the buckets or values that LoadCache copies to the cache of a GPU: those with
// the highest heat. The heat is a number per bucket or value in the GPU's memory. Entries with heat
// 0 are never cached. The selection stays the same between two loads ("GPHash", section 3.3; the
// paper leaves the policy open and is measured with LFU). The policy has no effect on a CPU.
type CachePolicy uint8

const (
	// LFU, the default, caches the entries that were read often and recently. A lookup adds one to
	// the heat of each entry that it reads, and each load halves all heats. Repeated lookups of one
	// key in a sorted or mixed batch count once.
	LFU CachePolicy = iota
	// LRU caches the entries that were read last, with time counted in loads. A lookup sets the
	// heat of each entry that it reads to the number of the next load. It writes only if the heat
	// differs, so LRU writes less than LFU.
	LRU
	// Random caches a random set of entries, another one at each load. Lookups record no heat.
	Random
)

var cachePolicies = enum.Names[CachePolicy]{Type: "gphash.CachePolicy", Names: []string{"LFU", "LRU", "Random"}, Err: op.ErrOptions}

// String returns the name of the policy.
func (p CachePolicy) String() string { return cachePolicies.String(p) }

// MarshalText returns the name of the policy, or weft.ErrOptions for an invalid value.
func (p CachePolicy) MarshalText() ([]byte, error) { return cachePolicies.Text(p) }

// UnmarshalText parses a name in upper or lower case, so that flag.TextVar accepts a CachePolicy.
func (p *CachePolicy) UnmarshalText(text []byte) error { return cachePolicies.Read(p, text) }

// cache is the host's description of a GPU's cache.
type cache struct {
	policy   CachePolicy
	share    float64
	buf      device.Buffer // cached buckets or values
	capacity uint64        // in entries
	// number of the next load; the first is 1, since heat 0 marks entries that were never read
	loads uint32

	values uint64 // number of values that fit the pool; 0 in a cache of buckets
	// the index of each value in the cache, followed by the heats of all values
	index device.Buffer
}

func (t *table) bucketBytes() int { return int(2 * t.slots * pm.Word) }

// initValues makes c a cache of values instead of buckets.
func (c *cache) initValues(s *device.Stream, dev device.Device, v *values) (err error) {
	n := uint64(len(v.space.owner)) * v.perUnit
	if n > math.MaxInt32 {
		return core.Invalid("Cache of values: the pool has room for %d values, but at most 2^31 can be numbered", n)
	}
	if c.index, err = dev.Alloc(int(8 * n)); err != nil {
		return err
	}
	c.values = n
	return errors.Join(s.Fill(c.index.Ptr, notCached, int(n)), s.Fill(c.heat(), 0, int(n)))
}

func (c *cache) heat() device.Ptr { return c.index.Ptr + device.Ptr(4*c.values) }

// entries returns the number of buckets or values that could be cached, and the bytes per entry.
func (c *cache) entries(t *table) (n uint64, bytes int) {
	if c.values > 0 {
		return c.values, int(t.values.words * pm.Word)
	}
	return t.slotsIn(t.live) / t.slots, t.bucketBytes()
}

// ensureCapacity grows the cache to at least the given capacity. bytes is the size of an entry. The
// caller excludes lookups that use the cache.
func (c *cache) ensureCapacity(dev device.Device, capacity uint64, bytes int) error {
	if capacity <= c.capacity {
		return nil
	}
	buf, err := dev.Alloc(int(capacity) * bytes)
	if err != nil {
		return err
	}
	if c.buf.Size > 0 {
		err = dev.Free(c.buf)
	}
	c.buf, c.capacity = buf, capacity
	return err
}

// LoadCache fills the cache with the buckets or values that were read most since the last load.
// Lookups continue meanwhile. If the index has no cache, LoadCache does nothing.
func (x *Index) LoadCache(ctx context.Context) error { return loadCache(ctx, x.core, x.engine) }

// LoadCache fills the cache with the buckets or values that were read most since the last load.
// Lookups continue meanwhile. If the map has no cache, LoadCache does nothing.
func (m *Map[K, V]) LoadCache(ctx context.Context) error { return loadCache(ctx, m.core, m.engine) }

// LoadCache fills the cache with the buckets that were read most since the last load. Lookups
// continue meanwhile. If x has no cache, LoadCache does nothing.
func (x *Strings) LoadCache(ctx context.Context) error { return loadCache(ctx, x.core, x.engine) }

func loadCache(ctx context.Context, t *core.Table, e *engine) error {
	return t.WithWriteLock(ctx, "LoadCache", func(now core.Counters) error {
		if g, ok := e.accel.(*gpuEngine); ok && g.k.cache.share > 0 {
			return g.loadCache(uint64(now.Live))
		}
		return nil
	})
}

// loadCache fills the cache and waits until it is full. keys is the number of keys in the index.
func (g *gpuEngine) loadCache(keys uint64) error {
	if err := g.startLoading(keys); err != nil {
		return err
	}
	// waits for the submitted load
	return g.RunSync(uncancelled, func(*device.Stream) error { return nil })
}

// startLoading submits the kernels that fill the cache. Only later changes wait for them. keys is
// the number of keys in the index.
func (g *gpuEngine) startLoading(keys uint64) error {
	k := &g.k
	nEntries, bytes := k.cache.entries(k.host.table)
	n := int(nEntries)
	var size prim.Carve
	newSorting(&size, n)
	work, err := k.buffers.acquire(int(size))
	if err != nil {
		return err
	}
	defer work.releaseAfter(g.Stream)
	at := prim.Carve(work.buf.Ptr)
	heat := newSorting(&at, n)
	p := cacheParams{table: k.table.Load().ref, space: k.space, heat: heat.From.Keys, n: nEntries}
	p.space.lists = lists{} // the lists change before the cache is full
	err = g.RunSync(uncancelled, func(s *device.Stream) error {
		if err := device.Launch(s, k.cacheEmpty, gpu.Wave(k.dev, n), gpu.Block, &p); err != nil {
			return err
		}
		return k.prim.Sort(s, &heat.Sort, heat.scratch)
	})
	if err == nil { // wait for lookups that use the cache and count reads
		err = g.excludeLookups(func(s *device.Stream) error { return s.Fill(p.table.cacheRead, 0, 4) })
	}
	if err != nil {
		return err
	}
	if k.cache.values > 0 {
		nEntries = keys
	}
	if err := k.cache.ensureCapacity(k.dev, uint64(k.cache.share*float64(nEntries)), bytes); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	k.cache.loads++
	if err := g.installLevels(); err != nil { // the cache may have moved
		return err
	}
	p.table, p.heat, p.rows, p.capacity = k.table.Load().ref, heat.To.Keys, heat.To.Vals, k.cache.capacity
	return g.noteLoss(g.Submit(g.Stream, func() error {
		return device.Launch(g.Stream, k.cacheFill, gpu.Wave(k.dev, warp*int(p.capacity)), gpu.Block, &p)
	}))
}

func (g *gpuEngine) excludeLookups(submit func(s *device.Stream) error) error {
	if err := g.Leases.BeginExclusive(uncancelled); err != nil {
		return err
	}
	defer g.Leases.EndExclusive()
	return g.RunSync(uncancelled, submit)
}

func (g *gpuEngine) cacheStats(ctx context.Context, s *Stats) error {
	c := &g.k.cache
	if c.share == 0 {
		return nil
	}
	var reads [2]uint64
	err := g.excludeLookups(func(stream *device.Stream) error {
		return stream.CopyOut(ctx, device.Bytes(reads[:]), g.k.word(wordReads))
	})
	s.CacheBytes = c.buf.Size + c.index.Size
	if reads[0] > 0 {
		s.CacheHitRate = float64(reads[1]) / float64(reads[0])
	}
	return err
}
