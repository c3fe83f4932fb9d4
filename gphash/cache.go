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

// The cache of buckets (section 3.3): control words and tags of those that are read most lie in
// the memory of the GPU, too, and lookups read them there. Which they are changes only when
// the cache is loaded; in between, changes write through. The paper counts the lookups that
// use a bucket of the cache before it is overwritten; here loading takes all buckets out,
// waits for the lookups that were under way, and puts the hottest in, while new ones read
// the pool.
//
// Beside a mirror, which has all buckets, it is a cache of values. A hot key shares its buckets
// with cold ones; of values the cache has those of hot keys only. They are known by where they are
// in the pool, so they stay when keys move, and the value that replaces another one gets its
// place. Only lookups that no change runs beside read them. An atomic batch gives a value's place away
// when it is settled, before it is published: until then lookups read the value in the pool, and if it
// is refused, from then on.

// CachePolicy says which buckets, or values, LoadCache puts into the cache of a GPU: those of the highest
// heat, a number for each in the memory of the GPU, of which 0 stays out. Between two loads they stay
// the same ("GPHash", section 3.3, which leaves the policy open and is measured with LFU). On
// a CPU it changes nothing.
type CachePolicy uint8

const (
	// LFU, the default, caches what is read most often, and lately: each lookup adds
	// one to the heat of what it reads, and each load halves all of them. What a sorted or a mixed batch
	// looks up several times counts once.
	LFU CachePolicy = iota
	// LRU caches what was read last, counting time in loads: a lookup sets the heat of
	// what it reads to the number of the next load. It writes only what differs, less than LFU does.
	LRU
	// Random caches any, others at each load. Lookups note no heat.
	Random
)

var cachePolicies = enum.Names[CachePolicy]{Type: "gphash.CachePolicy", Names: []string{"LFU", "LRU", "Random"}, Err: op.ErrOptions}

// String is the name of the policy.
func (p CachePolicy) String() string { return cachePolicies.String(p) }

// MarshalText is String, or weft.ErrOptions where there is no such value.
func (p CachePolicy) MarshalText() ([]byte, error) { return cachePolicies.Text(p) }

// UnmarshalText reads a name, in upper or lower case: so flag.TextVar takes it.
func (p *CachePolicy) UnmarshalText(text []byte) error { return cachePolicies.Read(p, text) }

// cache is what a launcher has of it.
type cache struct {
	policy   CachePolicy
	share    float64
	buf      device.Buffer // words of buckets, or of values
	capacity uint64        // how many
	loads    uint32        // the number of the next one, from 1 on: 0 is the heat of what nobody has read

	values uint64        // of a cache of values: how many the pool has room for,
	aside  device.Buffer // and of each of them which one of the cache it is, and its heat
}

// bucketBytes is what the cache has of a bucket.
func (t *table) bucketBytes() int { return int(2 * t.slots * pm.Word) }

// ofValues makes the cache one of values.
func (c *cache) ofValues(s *device.Stream, dev device.Device, v *values) (err error) {
	n := uint64(len(v.space.owner)) * v.per
	if n > math.MaxInt32 {
		return core.Invalid("Cache of values: the pool has room for %d, 2^31 at most have numbers", n)
	}
	if c.aside, err = dev.Alloc(int(8 * n)); err != nil {
		return err
	}
	c.values = n
	return errors.Join(s.Fill(c.aside.Ptr, notCached, int(n)), s.Fill(c.heat(), 0, int(n)))
}

func (c *cache) heat() device.Ptr { return c.aside.Ptr + device.Ptr(4*c.values) }

// of is how many buckets, or values, may be in the cache, and what it has of each, in bytes.
func (c *cache) of(t *table) (n uint64, bytes int) {
	if c.values > 0 {
		return c.values, int(t.values.words * pm.Word)
	}
	return t.slotsIn(t.live) / t.slots, t.bucketBytes()
}

// fit gives the cache memory for so many, if it has not. Nobody reads it.
func (c *cache) fit(dev device.Device, capacity uint64, bytes int) error {
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

// LoadCache fills the cache with the buckets, or values, that have been read most since it was loaded
// last, beside lookups. Without a cache it does nothing.
func (x *Index) LoadCache(ctx context.Context) error { return loadCache(ctx, x.core, x.engine) }

// LoadCache fills the cache with the buckets, or values, that have been read most since it was loaded
// last, beside lookups. Without a cache it does nothing.
func (m *Map[K, V]) LoadCache(ctx context.Context) error { return loadCache(ctx, m.core, m.engine) }

// LoadCache fills the cache with the buckets that have been read most since it was loaded last, beside
// lookups. Without a cache it does nothing.
func (x *Strings) LoadCache(ctx context.Context) error { return loadCache(ctx, x.core, x.engine) }

func loadCache(ctx context.Context, t *core.Table, e *engine) error {
	return t.Alone(ctx, "LoadCache", func(now core.Counters) error {
		if g, ok := e.far.(*gpuEngine); ok && g.k.cache.share > 0 {
			return g.loadCache(uint64(now.Live))
		}
		return nil
	})
}

// loadCache fills the cache of an index with so many keys.
func (g *gpuEngine) loadCache(keys uint64) error {
	if err := g.startLoading(keys); err != nil {
		return err
	}
	return g.Do(all, func(*device.Stream) error { return nil }) // behind it
}

// startLoading does not wait until the cache is full. Changes do.
func (g *gpuEngine) startLoading(keys uint64) error {
	k := &g.k
	most, bytes := k.cache.of(k.host.table)
	n := int(most)
	var size prim.Carve
	newSorting(&size, n)
	work, err := k.loans.take(int(size))
	if err != nil {
		return err
	}
	defer work.behind(g.Stream)
	at := prim.Carve(work.buf.Ptr)
	heat := newSorting(&at, n)
	p := cacheParams{table: k.table.Load().ref, space: k.space, heat: heat.From.Keys, n: most}
	p.space.lists = lists{} // which are others by the time that the cache is full
	err = g.Do(all, func(s *device.Stream) error {
		if err := device.Launch(s, k.cacheEmpty, gpu.Wave(k.dev, n), gpu.Block, &p); err != nil {
			return err
		}
		return k.prim.Sort(s, &heat.Sort, heat.scratch)
	})
	if err == nil { // who reads the cache, and counts that
		err = g.apart(func(s *device.Stream) error { return s.Fill(p.table.cacheRead, 0, 4) })
	}
	if err != nil {
		return err
	}
	if k.cache.values > 0 {
		most = keys
	}
	if err := k.cache.fit(k.dev, uint64(k.cache.share*float64(most)), bytes); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	k.cache.loads++
	if err := g.show(); err != nil { // its new place, if it has one
		return err
	}
	p.table, p.heat, p.rows, p.capacity = k.table.Load().ref, heat.To.Keys, heat.To.Vals, k.cache.capacity
	return g.note(g.Submit(g.Stream, func() error {
		return device.Launch(g.Stream, k.cacheFill, gpu.Wave(k.dev, warp*int(p.capacity)), gpu.Block, &p)
	}))
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
	s.CacheBytes = c.buf.Size + c.aside.Size
	if reads[0] > 0 {
		s.CacheHitRate = float64(reads[1]) / float64(reads[0])
	}
	return err
}
