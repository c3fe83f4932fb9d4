package horton

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
	// with sixteen slots, or 32 with buckets of 16, and grows. Fixed requires a Capacity.
	Capacity int

	// MaxLoad is the share of slots with keys at which the table grows. For a fixed table, it is
	// the share of slots that Capacity keys fill. The default is 0.9 with buckets of eight slots
	// and more, 0.85 with four, 0.8 with two, and 0.7 with one. Arrays of remap entries also take
	// slots, so the maximum load is about 0.8 with one slot, 0.87 with two, 0.92 with four, 0.955
	// with eight and 0.97 with sixteen (paper, section 6.2). The nearer MaxLoad is to it, the
	// longer insertions take.
	MaxLoad float64

	// Fixed tables never grow or shrink. They take Capacity keys. If MaxLoad is near the maximum
	// load, or the table is small, they get more slots than MaxLoad requires. On a GPU this begins
	// at loads of 0.55 with one slot, 0.7 with two, 0.8 with four, 0.9 with eight and 0.92 with
	// sixteen, and 0.1 less in sets of 32-bit keys. A key beyond Capacity that finds no free slot
	// in its buckets is dropped, and the call returns weft.ErrFull. If a key finds no slot before
	// Capacity is reached, the table is rehashed with another seed, which takes memory for both
	// tables.
	Fixed bool

	// Slots is the number of slots per bucket: 1, 2, 4, 8 or 16. The default is 8.
	Slots int

	// Reclaim selects when the table reclaims space after deletes, which makes lookups short again.
	// The default is Lazy.
	Reclaim Reclaim

	// Unordered lets any one of several operations on the same key in a batch win. By default, they
	// have the outcome of batch order. Unordered saves a GPU the search for duplicates. A CPU keeps
	// the order in any case.
	Unordered bool

	// Seed seeds the hash functions. The default 0 selects a random seed, so that colliding keys
	// cannot be prepared. If keys find no slots, the table takes another seed, which is derived
	// from this one.
	Seed uint64

	// Logger receives growth, shrinking, rehashes and reclaiming at debug level. The default is
	// silent.
	Logger *slog.Logger

	// crowded makes fixed tables have no more slots than MaxLoad requires, and search for a slot
	// however full they are. Tests use it to make keys move.
	crowded bool
}

// Reclaim selects when the table reclaims space after deletes (paper, section 5.4). It then clears
// unused remap entries, returns keys to their primary buckets, and turns buckets of type B without
// entries into type A.
type Reclaim int

const (
	// Lazy makes a pass over the whole table once enough keys have been deleted.
	Lazy Reclaim = iota
	// Eager reclaims the buckets of deleted keys after each batch of deletes.
	Eager
	// Never reclaims only in Compact. Insertions still reuse the entries that they need.
	Never
)

var reclaims = enum.Names[Reclaim]{Type: "horton.Reclaim", Names: []string{"Lazy", "Eager", "Never"}, Err: op.ErrOptions}

// String returns the name of r.
func (r Reclaim) String() string { return reclaims.String(r) }

// MarshalText returns the name of r, or weft.ErrOptions if r is not valid.
func (r Reclaim) MarshalText() ([]byte, error) { return reclaims.Text(r) }

// UnmarshalText sets r by its name, in upper or lower case, so flag.TextVar accepts r.
func (r *Reclaim) UnmarshalText(text []byte) error { return reclaims.Read(r, text) }

// maxLoads has the maximum load by number of slots per bucket, for random keys in a large table. At
// that load, keys and remap entries fill all slots (paper, section 6.2).
var maxLoads = map[int]float64{1: 0.80, 2: 0.87, 4: 0.92, 8: 0.955, 16: 0.975}

// safeLoads has the loads up to which kernels on a GPU find a slot for every key. Above them the
// host waits for a batch's outcome, so that the table can grow. With few slots, the keys of a
// bucket with one tag may need more free slots in one place than the table has. This happens more
// often with ten entries.
var safeLoads = map[int]float64{1: 0.55, 2: 0.7, 4: 0.8, 8: 0.88, 16: 0.92}

func (l layout) safeLoad() float64 {
	if l.entries() < halfEntries {
		return safeLoads[l.slots] - 0.1
	}
	return safeLoads[l.slots]
}

// fixedLoadsHost and fixedLoadsDevice have the loads up to which fixed tables are filled on a CPU
// and on a GPU. On a CPU, every one of many tables reached the load (TestLoadIsReached). On a GPU,
// kernels find slots up to the load.
var (
	fixedLoadsHost   = map[int]float64{1: 0.73, 2: 0.81, 4: 0.90, 8: 0.945, 16: 0.96}
	fixedLoadsDevice = map[int]float64{1: 0.55, 2: 0.7, 4: 0.8, 8: 0.9, 16: 0.92}
)

func (l layout) fixedLoad(host bool) float64 {
	fewEntries := l.entries() < halfEntries
	switch {
	case host && fewEntries:
		return fixedLoadsHost[l.slots] - 0.01
	case host:
		return fixedLoadsHost[l.slots]
	case fewEntries:
		return fixedLoadsDevice[l.slots] - 0.1
	}
	return fixedLoadsDevice[l.slots]
}

// defaultLoads has the default MaxLoad by number of slots per bucket.
var defaultLoads = map[int]float64{1: 0.7, 2: 0.8, 4: 0.85, 8: 0.9, 16: 0.9}

func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if err := bucket.CheckOptions(&c.Slots, &c.MaxLoad, defaultLoads); err != nil {
		return c, err
	}
	if c.Reclaim < Lazy || c.Reclaim > Never {
		return c, core.Invalid("unknown Reclaim %d", c.Reclaim)
	}
	return c, core.Defaults(c.Capacity, c.Fixed, &c.Seed, &c.Logger)
}

func (o *Options) mode(slotBytes int) mode {
	return mode{
		layout: layout{slots: o.Slots, slotBytes: slotBytes}, capacity: bucket.FixedCapacity(o.Capacity, o.Fixed && !o.crowded),
		eager: o.Reclaim == Eager,
	}
}

func (o *Options) policy(l layout, host bool) bucket.Config {
	fixedLoad := l.fixedLoad(host)
	if o.crowded {
		fixedLoad = 0
	}
	return bucket.Config{
		Name: name, Capacity: o.Capacity, MaxLoad: o.MaxLoad, Fixed: o.Fixed, Unordered: o.Unordered,
		Seed: o.Seed, Logger: o.Logger,
		SlotBytes: l.slotBytes, LineMultiple: l.lineMultiple(), MaxLines: l.maxLines(), ReachableLoad: l.safeLoad(), FixedLoad: fixedLoad,
	}
}
