package cuckoo

import (
	"log/slog"

	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Options configure a [Map] or a [Set]. The zero value and nil are good defaults.
type Options struct {
	// Capacity is the number of keys that fit without growing. Default 0: the table
	// starts at one line of 128 bytes and grows. A fixed table needs it.
	Capacity int

	// MaxLoad is the share of slots with keys at which the table grows; for a fixed
	// table, the share of slots that Capacity keys fill. Default 0.9; 0.85 with
	// buckets of one slot, 0.8 of two. Insertions take longer the nearer it comes
	// to what buckets of so many slots bear: about 0.97 of one slot (with four
	// functions), 0.89 of two, 0.97 of four, 0.99 of eight and more.
	MaxLoad float64

	// Fixed tables never grow nor shrink. They take Capacity keys, in as many slots
	// more as that needs where MaxLoad is next to what buckets bear or the table is small.
	// Beyond, keys are left out that find no free slot in their buckets, and the call
	// returns weft.ErrFull. Where keys crowd before Capacity is reached, the
	// table is rehashed with another seed, which takes memory for both.
	Fixed bool

	// Slots is the number of slots of a bucket: 1, 2, 4, 8 or 16. Default 8. With one
	// slot a key has four buckets instead of two, and there is a stash.
	Slots int

	// Policy is which bucket a new key goes to. Default FirstFit.
	Policy Policy

	// Lookup is how lookups read buckets. Default StopAtHit.
	Lookup Lookup

	// Unordered drops the promise that duplicates within a batch have the outcome of
	// batch order; any one of them wins. It saves a GPU from looking for them. The
	// CPU keeps the order either way.
	Unordered bool

	// Seed keys the hash functions. Default 0: random, so that nobody can prepare
	// colliding keys. A table in which keys crowd takes another one, which follows
	// from it.
	Seed uint64

	// Logger is told of growth, shrinking and rehashes at debug level. Default:
	// silent.
	Logger *slog.Logger

	// crowded tables of fixed size have no more slots than MaxLoad asks for, and look for room
	// however full they are: tests bring them to where keys move.
	crowded bool
}

// Policy is which of its buckets a new key goes to while several have room. Where
// none has, keys are moved to other buckets of theirs.
type Policy int

const (
	// FirstFit takes the first bucket with a free slot. Most keys are in their first
	// bucket then, where most lookups end; and one that finds a slot there which was
	// never used ends, too, since no key has gone on to its second bucket yet.
	FirstFit Policy = iota
	// LoadBalancing takes the bucket with most free slots: evictions come later, and
	// lookups read more: half of the keys are in their second bucket.
	LoadBalancing
)

var policies = enum.Names[Policy]{Type: "cuckoo.Policy", Names: []string{"FirstFit", "LoadBalancing"}, Err: op.ErrOptions}

// String is the name of the policy.
func (p Policy) String() string { return policies.String(p) }

// MarshalText is String, or weft.ErrOptions where there is no such value.
func (p Policy) MarshalText() ([]byte, error) { return policies.Text(p) }

// UnmarshalText reads a name, in upper or lower case: so flag.TextVar takes it.
func (p *Policy) UnmarshalText(text []byte) error { return policies.Read(p, text) }

// Lookup is how lookups read the buckets of a key.
type Lookup int

const (
	// StopAtHit reads one bucket after the other until the key is found: the least
	// memory is read.
	StopAtHit Lookup = iota
	// AllBuckets reads all buckets at once: an answer waits for memory once.
	AllBuckets
)

var lookups = enum.Names[Lookup]{Type: "cuckoo.Lookup", Names: []string{"StopAtHit", "AllBuckets"}, Err: op.ErrOptions}

// String is the name of the way to look up.
func (l Lookup) String() string { return lookups.String(l) }

// MarshalText is String, or weft.ErrOptions where there is no such value.
func (l Lookup) MarshalText() ([]byte, error) { return lookups.Text(l) }

// UnmarshalText reads a name, in upper or lower case: so flag.TextVar takes it.
func (l *Lookup) UnmarshalText(text []byte) error { return lookups.Read(l, text) }

// bearable is the load that random keys can be brought to by buckets of so many
// slots, in a large table (Horton tables, section 2; Walzer, "Load Thresholds for
// Cuckoo Hashing with Overlapping Blocks", table 1).
var bearable = map[int]float64{1: 0.976, 2: 0.897, 4: 0.976, 8: 0.997, 16: 0.999}

// safeShare of that is a load at which kernels find room for every key, too.
const safeShare = 0.97

// defaultLoads are the defaults of MaxLoad.
var defaultLoads = map[int]float64{1: 0.85, 2: 0.8, 4: 0.9, 8: 0.9, 16: 0.9}

// check fills in defaults and reports what makes no sense.
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

// mode is that of tables with slots of a width.
func (o *Options) mode(slotBytes int) mode {
	return mode{
		layout: layout{slots: o.Slots, slotBytes: slotBytes}, capacity: bucket.FixedCapacity(o.Capacity, o.Fixed && !o.crowded),
		balances: o.Policy == LoadBalancing && o.Slots > 1, all: o.Lookup == AllBuckets,
	}
}

// policy is what decides the size of a table with such a layout.
func (o *Options) policy(l layout) bucket.Config {
	sure := safeShare * bearable[l.slots]
	if o.crowded {
		sure = 0
	}
	return bucket.Config{
		Name: name, Capacity: o.Capacity, MaxLoad: o.MaxLoad, Fixed: o.Fixed, Unordered: o.Unordered,
		Seed: o.Seed, Logger: o.Logger,
		SlotBytes: l.slotBytes, Multiple: l.least(), MostLines: l.maxLines(), Safe: safeShare * bearable[l.slots], Sure: sure,
	}
}

// maxLines is the largest number of lines of buckets.
func (l layout) maxLines() uint32 {
	return uint32(min(uint64(maxSlots)*uint64(l.slotBytes)/lineBytes, 1<<30)) - mostStash - 2
}
