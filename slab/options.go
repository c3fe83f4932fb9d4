package slab

import (
	"log/slog"

	"github.com/weftgo/weft/internal/core"
)

// Options configures a [Map], a [Set] or a [MultiMap]. The zero value and nil select the defaults.
type Options struct {
	// Capacity is the number of keys (in a MultiMap, of pairs) that fit without growing. With the
	// default 0 the structure starts with one bucket and grows. Fixed requires a Capacity.
	Capacity int

	// MaxLoad is the share of the memory of all slabs that keys and values take when Capacity is
	// reached. This is the paper's memory utilization. It determines the number of keys per bucket.
	// The default is 0.55, where 2 of a hundred buckets have a second slab, or 12 with 64-bit keys
	// or values. From 0.65 on most buckets have two slabs or more, and searches slow down in
	// proportion. The maximum is 0.93, and 0.86 for pairs with a 64-bit part.
	MaxLoad float64

	// Buckets, if not 0, fixes the number of buckets. Then chains grow instead, and MaxLoad has no
	// effect. With one bucket the structure is the paper's slab list. No rehash takes place until
	// the pool has 255 super blocks, with at least 60 million pairs. Then a pool of larger super
	// blocks replaces the pool.
	Buckets int

	// Fixed allocates all memory at the start, enough for Capacity keys in any distribution over
	// the buckets. A key without a free slot at the end of its bucket's chain is dropped, and the
	// call returns weft.ErrFull. With more than Capacity keys, dead slots of other buckets are
	// reclaimed only if a flush pays off.
	Fixed bool

	// MaxTombstones is the share of dead slots among the slots in use at which the structure
	// flushes itself. It flushes after a batch from host memory, and before a batch on the device
	// that may overflow. The default is 0.25. If MaxTombstones is negative, the structure is
	// flushed only by Compact or when it is out of memory.
	MaxTombstones float64

	// Unordered drops the promise that duplicates within a batch have the result of batch order.
	// Any one of them wins. So a GPU need not search for duplicates. A CPU keeps the order in any
	// case.
	Unordered bool

	// Seed is the key of the hash. The default 0 selects a random seed, so that colliding keys
	// cannot be prepared.
	Seed uint64

	// ResultLimit is the maximum size of the results of MultiMap.GetAll, in bytes. The default is
	// half of the free memory of the host.
	ResultLimit int

	// Logger receives growth, shrinking, rehashes and flushes at debug level. The default is
	// silent.
	Logger *slog.Logger
}

const (
	// maxCapacity exceeds any memory, but calculations with it do not overflow.
	maxCapacity = 1 << 48

	defaultMaxLoad       = 0.55
	minMaxLoad           = 0.001
	defaultMaxTombstones = 0.25

	// growShare is the multiple of MaxLoad at which a structure grows. Until then chains get
	// longer.
	growShare = 1.25
	// shrinkShare is the share of the growth limit at which a structure shrinks. It is far below
	// one half, so that a few changing keys do not make the structure grow and shrink in turns.
	shrinkShare = 1.0 / 8
	// flushShare is the minimum share of dead slots for a flush, since a flush reads every slot.
	flushShare = 1.0 / 16
)

// check returns the options with defaults, or an error if they are invalid.
func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.MaxLoad == 0 {
		c.MaxLoad = defaultMaxLoad
	}
	if c.MaxTombstones == 0 {
		c.MaxTombstones = defaultMaxTombstones
	}
	switch {
	case !(c.MaxLoad >= minMaxLoad && c.MaxLoad < 1): // also NaN
		return c, core.Invalid("MaxLoad %v is not in [%v, 1)", c.MaxLoad, minMaxLoad)
	case c.ResultLimit < 0:
		return c, core.Invalid("ResultLimit %d is negative", c.ResultLimit)
	case c.Capacity > maxCapacity:
		return c, core.Invalid("Capacity %d needs more than %d GiB", c.Capacity, maxCapacity>>27)
	case c.Buckets < 0 || c.Buckets > maxBuckets:
		return c, core.Invalid("Buckets %d is not in [0, %d]", c.Buckets, maxBuckets)
	case !(c.MaxTombstones <= 1): // also NaN
		return c, core.Invalid("MaxTombstones %v is more than 1", c.MaxTombstones)
	}
	return c, core.Defaults(c.Capacity, c.Fixed, &c.Seed, &c.Logger)
}
