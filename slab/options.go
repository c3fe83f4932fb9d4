package slab

import (
	"log/slog"

	"github.com/weftgo/weft/internal/core"
)

// Options configures a [Map], a [Set] or a [MultiMap]. The zero value and nil are good defaults.
type Options struct {
	// Capacity is the number of keys (in a MultiMap, of pairs) that fit without growing. Default 0:
	// the structure starts with one bucket and grows. Required if Fixed is set.
	Capacity int

	// MaxLoad is the share of the memory of all slabs that keys and values take up when Capacity is
	// reached. This is the paper's memory utilization; it determines how many keys share a bucket.
	// Default 0.55, where 2 buckets of a hundred have a second slab, or 12 with 64-bit keys or
	// values. From 0.65 on most buckets have two slabs or more, and searches slow down in
	// proportion. The maximum is 0.93, and 0.86 for pairs with a 64-bit part.
	MaxLoad float64

	// Buckets, if not 0, fixes the number of buckets: chains grow instead, and MaxLoad has no
	// effect. With one bucket the structure is the paper's slab list. Nothing is rehashed until the
	// pool has 255 super blocks, with 60 million pairs or more. Then a pool of larger super blocks
	// replaces it.
	Buckets int

	// Fixed structures have all their memory from the start, enough for Capacity keys however they
	// are spread over the buckets. Keys without a free slot at the end of their bucket's chain are
	// dropped, and the call returns weft.ErrFull. Beyond Capacity, dead slots of other buckets are
	// reclaimed only if they are many.
	Fixed bool

	// MaxTombstones is the share of dead slots among the slots in use at which the structure
	// flushes itself. It does so after a batch from host memory, and before a batch on the device
	// that may overflow. Default 0.25. If negative, only Compact flushes, and a structure that is
	// out of memory.
	MaxTombstones float64

	// Unordered drops the promise that duplicates within a batch have the outcome of batch order;
	// any one of them wins. It spares a GPU the search for duplicates. The CPU keeps the order
	// either way.
	Unordered bool

	// Seed keys the hash. Default 0: random, so that colliding keys cannot be prepared.
	Seed uint64

	// ResultLimit is the maximum size of the results of MultiMap.GetAll, in bytes. Default: half of
	// the free memory of the host.
	ResultLimit int

	// Logger receives growth, shrinking, rehashes and flushes at debug level. Default: silent.
	Logger *slog.Logger
}

const (
	// maxCapacity exceeds any memory, and is small enough not to overflow in calculations.
	maxCapacity = 1 << 48

	defaultMaxLoad       = 0.55
	minMaxLoad           = 0.001
	defaultMaxTombstones = 0.25

	// growShare is the multiple of the keys allowed by MaxLoad at which a structure grows. Until
	// then chains may get a little longer.
	growShare = 1.25
	// shrinkShare is the share of that limit at which a structure shrinks. It is far enough from
	// one half that a few keys that come and go do not grow and shrink it in turns.
	shrinkShare = 1.0 / 8
	// flushShare is the minimum share of dead slots among all slots at which a structure flushes
	// itself, since a flush reads every slot.
	flushShare = 1.0 / 16
)

// check fills in defaults and reports invalid options.
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
