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
	// at one line of 128 bytes and grows. A fixed table requires it.
	Capacity int

	// MaxLoad is the share of slots with keys at which the table grows. For a fixed table, it is
	// the share of slots that Capacity keys fill. The default is 0.9, or 0.85 with buckets of one
	// slot and 0.8 of two. Insertions take longer the nearer it comes to the load that buckets of
	// that size bear: about 0.97 for one slot (with four functions), 0.89 for two, 0.97 for four,
	// 0.99 for eight and more.
	MaxLoad float64

	// Fixed tables never grow or shrink. They take Capacity keys. If MaxLoad is near what buckets
	// bear, or the table is small, they get as many more slots as that requires. Keys beyond
	// Capacity that find no free slot in their buckets are dropped, and the call returns
	// weft.ErrFull. If keys crowd before Capacity is reached, the table is rehashed with another
	// seed, which takes memory for both tables.
	Fixed bool

	// Slots is the number of slots of a bucket: 1, 2, 4, 8 or 16. The default is 8. With one slot a
	// key has four buckets instead of two, and the table has a stash.
	Slots int

	// Policy selects the bucket for a new key. The default is FirstFit.
	Policy Policy

	// Lookup selects how lookups read buckets. The default is StopAtHit.
	Lookup Lookup

	// Unordered drops the promise that duplicates within a batch have the outcome of batch order;
	// any one of them wins. It saves a GPU the search for duplicates. The CPU keeps the order
	// either way.
	Unordered bool

	// Seed keys the hash functions. The default 0 selects a random seed, so that colliding keys
	// cannot be prepared. A table in which keys crowd takes another seed, derived from this one.
	Seed uint64

	// Logger receives growth, shrinking and rehashes at debug level. The default is silent.
	Logger *slog.Logger

	// crowded tables of fixed size have no more slots than MaxLoad requires, and search for a slot
	// however full they are. Tests use them to make keys move.
	crowded bool
}

// Policy selects the bucket for a new key while several have free slots. If none has, keys are
// moved to their other buckets.
type Policy int

const (
	// FirstFit takes the first bucket with a free slot. Most keys are then in their first bucket,
	// where most lookups end. A lookup that finds a never-used slot there ends, too, since no key
	// has gone on to its second bucket yet.
	FirstFit Policy = iota
	// LoadBalancing takes the bucket with most free slots. Evictions come later and lookups read
	// more, since half of the keys are in their second bucket.
	LoadBalancing
)

var policies = enum.Names[Policy]{Type: "cuckoo.Policy", Names: []string{"FirstFit", "LoadBalancing"}, Err: op.ErrOptions}

// String returns the name of the policy.
func (p Policy) String() string { return policies.String(p) }

// MarshalText returns String as bytes, or weft.ErrOptions for an unknown value.
func (p Policy) MarshalText() ([]byte, error) { return policies.Text(p) }

// UnmarshalText parses a name in upper or lower case, so flag.TextVar accepts it.
func (p *Policy) UnmarshalText(text []byte) error { return policies.Read(p, text) }

// Lookup selects how lookups read the buckets of a key.
type Lookup int

const (
	// StopAtHit reads one bucket after the other until the key is found. It reads the least memory.
	StopAtHit Lookup = iota
	// AllBuckets reads all buckets at once, so that an answer waits for memory once.
	AllBuckets
)

var lookups = enum.Names[Lookup]{Type: "cuckoo.Lookup", Names: []string{"StopAtHit", "AllBuckets"}, Err: op.ErrOptions}

// String returns the name of the way to look up.
func (l Lookup) String() string { return lookups.String(l) }

// MarshalText returns String as bytes, or weft.ErrOptions for an unknown value.
func (l Lookup) MarshalText() ([]byte, error) { return lookups.Text(l) }

// UnmarshalText parses a name in upper or lower case, so flag.TextVar accepts it.
func (l *Lookup) UnmarshalText(text []byte) error { return lookups.Read(l, text) }

// maxLoads is the load that buckets of a number of slots reach with random keys in a large table
// (Horton tables, section 2; Walzer, "Load Thresholds for Cuckoo Hashing with Overlapping Blocks",
// table 1).
var maxLoads = map[int]float64{1: 0.976, 2: 0.897, 4: 0.976, 8: 0.997, 16: 0.999}

// safeShare is the share of that load at which kernels, too, find a slot for every key.
const safeShare = 0.97

// defaultLoads holds the defaults of MaxLoad by number of slots.
var defaultLoads = map[int]float64{1: 0.85, 2: 0.8, 4: 0.9, 8: 0.9, 16: 0.9}

// check fills in defaults and rejects invalid options.
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
		return c, core.Invalid("no such policy: %d", c.Policy)
	case c.Lookup != StopAtHit && c.Lookup != AllBuckets:
		return c, core.Invalid("no such lookup: %d", c.Lookup)
	}
	return c, core.Defaults(c.Capacity, c.Fixed, &c.Seed, &c.Logger)
}

// mode returns the mode of tables with slots of slotBytes bytes.
func (o *Options) mode(slotBytes int) mode {
	return mode{
		layout: layout{slots: o.Slots, slotBytes: slotBytes}, capacity: bucket.FixedCapacity(o.Capacity, o.Fixed && !o.crowded),
		loadBalancing: o.Policy == LoadBalancing && o.Slots > 1, readsAll: o.Lookup == AllBuckets,
	}
}

// policy returns the configuration of the policy for a table with layout l.
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

// maxLines returns the largest number of lines of buckets.
func (l layout) maxLines() uint32 {
	return uint32(min(uint64(maxSlots)*uint64(l.slotBytes)/lineBytes, 1<<30)) - maxStash - 2
}
