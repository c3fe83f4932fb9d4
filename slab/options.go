package slab

import (
	"log/slog"

	"github.com/weftgo/weft/internal/core"
)

// Options configure a [Map], a [Set] or a [MultiMap]. The zero value and nil
// are good defaults.
type Options struct {
	// Capacity is the number of keys (in a MultiMap, of pairs) that fit without
	// growing. Default 0: the structure starts with one bucket and grows. A
	// fixed one needs it.
	Capacity int

	// MaxLoad is the share of the memory of all slabs that keys and values take
	// up when Capacity is reached, the paper's memory utilization: what decides
	// how many keys share a bucket. Default 0.55, where 2 buckets of a hundred
	// have a second slab, or 12 where keys or values have 64 bits. From 0.65 on
	// most buckets have two and more, and searches take as many times longer. The
	// most is 0.93, and 0.86 for pairs with 64 bits.
	MaxLoad float64

	// Buckets, if not 0, is the number of buckets for good: chains grow
	// instead, and MaxLoad decides nothing. With one bucket the structure
	// is the paper's slab list. Nothing is rehashed before the pool has 255
	// super blocks, with 60 million pairs or more; it is then replaced by one of
	// larger super blocks.
	Buckets int

	// Fixed structures have all their memory from the start, enough for
	// Capacity keys however they are spread over the buckets. Keys that find
	// no room are left out and the call returns weft.ErrFull: a key is refused
	// at the end of its bucket's chain. Beyond Capacity, dead slots of other
	// buckets are dropped only if they are many.
	Fixed bool

	// MaxTombstones is the share of slots in use that belong to deleted keys
	// at which the structure flushes itself after a batch from host memory, and
	// before a batch on the device that may not find room. Default 0.25.
	// Negative: only Compact does it, and a structure for which there is no more
	// memory.
	MaxTombstones float64

	// Unordered drops the promise that duplicates within a batch have the
	// outcome of batch order; any one of them wins. It saves a GPU from
	// looking for them. The CPU keeps the order either way.
	Unordered bool

	// Seed keys the hash. Default 0: random, so that nobody can prepare
	// colliding keys.
	Seed uint64

	// ResultLimit is how many bytes the results of MultiMap.GetAll may take.
	// Default: half of the free memory of the host.
	ResultLimit int

	// Logger is told of growth, shrinking, rehashes and flushes at debug
	// level. Default: silent.
	Logger *slog.Logger
}

const (
	// maxCapacity is more than any memory holds, and little enough to reckon
	// with.
	maxCapacity = 1 << 48

	defaultMaxLoad       = 0.55
	minMaxLoad           = 0.001
	defaultMaxTombstones = 0.25

	// growShare of the keys that MaxLoad allows is when a structure grows:
	// chains may get a little longer before.
	growShare = 1.25
	// shrinkShare of that is when it gets smaller. Far enough from one half
	// that keys that come and go a few at a time don't grow and shrink it in
	// turns.
	shrinkShare = 1.0 / 8
	// flushShare of all slots, at least, belong to deleted keys when a
	// structure flushes itself: it reads them all to do that.
	flushShare = 1.0 / 16
)

// check fills in defaults and reports what makes no sense.
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
