package cuckoo

import (
	"log/slog"

	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Options configure a [Map] or a [Set]. The zero value and nil select the defaults.
type Options struct {
	// Capacity is the number of keys that fit without growing. The default is 0: the table starts
	// at one line of 128 bytes and grows. Fixed requires a Capacity.
	Capacity int

	// MaxLoad is the share of slots with keys at which the table grows. For a fixed table, it is
	// the share of slots that Capacity keys fill. The default is 0.9, or 0.85 with buckets of one
	// slot and 0.8 with two. The maximum load is about 0.97 with one slot (and four functions),
	// 0.89 with two, 0.97 with four, and 0.99 with eight and more. The nearer MaxLoad is to it, the
	// longer insertions take.
	MaxLoad float64

	// Fixed tables never grow or shrink. They take Capacity keys. If MaxLoad is near the maximum
	// load, or the table is small, they get more slots than MaxLoad requires. A key beyond Capacity
	// that finds no free slot in its buckets is dropped, and the call returns weft.ErrFull. If a
	// key finds no slot before Capacity is reached, the table is rehashed with another seed, which
	// takes memory for both tables.
	Fixed bool

	// Slots is the number of slots per bucket: 1, 2, 4, 8 or 16. The default is 8. With one slot a
	// key has four buckets instead of two, and the table has a stash.
	Slots int

	// Policy selects the bucket for a new key. The default is FirstFit.
	Policy Policy

	// Lookup selects how lookups read buckets. The default is StopAtHit.
	Lookup Lookup

	// Unordered lets any one of several operations on the same key in a batch win. By default, they
	// have the outcome of batch order. Unordered saves a GPU the search for duplicates. A CPU keeps
	// the order in any case.
	Unordered bool

	// Seed seeds the hash functions. The default 0 selects a random seed, so that colliding keys
	// cannot be prepared. If keys find no slots, the table takes another seed, which is derived
	// from this one.
	Seed uint64

	// Logger receives growth, shrinking and rehashes at debug level. The default is silent.
	Logger *slog.Logger

	// crowded makes fixed tables have no more slots than MaxLoad requires, and search for a slot
	// however full they are. Tests use it to make keys move.
	crowded bool
}

// Policy selects the bucket for a new key if several have free slots. If no bucket has one, keys
// are moved to their other buckets.
type Policy int

const (
	// FirstFit takes the first bucket with a free slot. Most keys are then in their first bucket,
	// where most lookups end. A lookup also ends at a bucket with a never-used slot, since no key
	// has gone past that bucket.
	FirstFit Policy = iota
	// LoadBalancing takes the bucket with the most free slots. Keys are moved only at higher loads.
	// Lookups read more, since half of the keys are in their second bucket.
	LoadBalancing
)

var policies = enum.Names[Policy]{Type: "cuckoo.Policy", Names: []string{"FirstFit", "LoadBalancing"}, Err: op.ErrOptions}

// String returns the name of p.
func (p Policy) String() string { return policies.String(p) }

// MarshalText returns the name of p, or weft.ErrOptions if p is not valid.
func (p Policy) MarshalText() ([]byte, error) { return policies.Text(p) }

// UnmarshalText sets p by its name, in upper or lower case, so flag.TextVar accepts p.
func (p *Policy) UnmarshalText(text []byte) error { return policies.Read(p, text) }

// Lookup selects how lookups read the buckets of a key.
type Lookup int

const (
	// StopAtHit reads one bucket after the other until the key is found. It reads the least memory.
	StopAtHit Lookup = iota
	// AllBuckets reads all buckets at once, so a lookup waits for memory only once.
	AllBuckets
)

var lookups = enum.Names[Lookup]{Type: "cuckoo.Lookup", Names: []string{"StopAtHit", "AllBuckets"}, Err: op.ErrOptions}

// String returns the name of l.
func (l Lookup) String() string { return lookups.String(l) }

// MarshalText returns the name of l, or weft.ErrOptions if l is not valid.
func (l Lookup) MarshalText() ([]byte, error) { return lookups.Text(l) }

// UnmarshalText sets l by its name, in upper or lower case, so flag.TextVar accepts l.
func (l *Lookup) UnmarshalText(text []byte) error { return lookups.Read(l, text) }

// maxLoads has the maximum load by number of slots per bucket, for random keys in a large table
// (Horton tables, section 2; Walzer, "Load Thresholds for Cuckoo Hashing with Overlapping Blocks",
// table 1).
var maxLoads = map[int]float64{1: 0.976, 2: 0.897, 4: 0.976, 8: 0.997, 16: 0.999}

// safeShare is the share of the maximum load up to which kernels find a slot for every key.
const safeShare = 0.97

// defaultLoads has the default MaxLoad by number of slots per bucket.
var defaultLoads = map[int]float64{1: 0.85, 2: 0.8, 4: 0.9, 8: 0.9, 16: 0.9}

func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if err := bucket.CheckOptions(&c.Slots, &c.MaxLoad, defaultLoads); err != nil {
		return c, err
	}
	switch {
	case c.Policy != FirstFit && c.Policy != LoadBalancing:
		return c, core.Invalid("unknown Policy %d", c.Policy)
	case c.Lookup != StopAtHit && c.Lookup != AllBuckets:
		return c, core.Invalid("unknown Lookup %d", c.Lookup)
	}
	return c, core.Defaults(c.Capacity, c.Fixed, &c.Seed, &c.Logger)
}

func (o *Options) mode(slotBytes int) mode {
	return mode{
		layout: layout{slots: o.Slots, slotBytes: slotBytes}, capacity: bucket.FixedCapacity(o.Capacity, o.Fixed && !o.crowded),
		loadBalancing: o.Policy == LoadBalancing && o.Slots > 1, readsAll: o.Lookup == AllBuckets,
	}
}

func (o *Options) policy(l layout) bucket.Config {
	fixedLoad := safeShare * maxLoads[l.slots]
	if o.crowded {
		fixedLoad = 0
	}
	return bucket.Config{
		Name: name, Capacity: o.Capacity, MaxLoad: o.MaxLoad, Fixed: o.Fixed, Unordered: o.Unordered,
		Seed: o.Seed, Logger: o.Logger,
		SlotBytes: l.slotBytes, LineMultiple: l.lineMultiple(), MaxLines: l.maxLines(), ReachableLoad: safeShare * maxLoads[l.slots], FixedLoad: fixedLoad,
	}
}

func (l layout) maxLines() uint32 {
	return uint32(min(uint64(maxSlots)*uint64(l.slotBytes)/lineBytes, 1<<30)) - maxStash - 2
}
