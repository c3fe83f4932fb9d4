package horton

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
	// starts with sixteen slots, or 32 with buckets of 16, and grows. A fixed table needs it.
	Capacity int

	// MaxLoad is the share of slots with keys at which the table grows; for a fixed
	// table, the share of slots that Capacity keys fill. Default 0.9 with buckets of
	// eight slots and more; 0.85 of four, 0.8 of two, 0.7 of one. Insertions take longer
	// the nearer it comes to what buckets of so many slots bear, since arrays of remap
	// entries take slots, too: about 0.8 of one slot, 0.87 of two, 0.92 of four, 0.955
	// of eight, 0.97 of sixteen (paper, section 6.2).
	MaxLoad float64

	// Fixed tables never grow nor shrink. They take Capacity keys, in as many slots more as
	// that needs where MaxLoad is next to what buckets bear or the table is small: on a GPU from
	// loads of 0.55 on with one slot, 0.7 with two, 0.8 with four, 0.9 with eight and 0.92 with
	// sixteen, and 0.1 less in sets of 32-bit keys. Beyond, keys are left out that find no free
	// slot in their buckets, and the call returns weft.ErrFull. Where keys crowd before Capacity
	// is reached, the table is rehashed with another seed, which takes memory for both.
	Fixed bool

	// Slots is the number of slots of a bucket: 1, 2, 4, 8 or 16. Default 8.
	Slots int

	// Reclaim is when deletes make lookups short again. Default Lazy.
	Reclaim Reclaim

	// Unordered drops the promise that duplicates within a batch have the outcome of
	// batch order; any one of them wins. It saves a GPU from looking for them. The
	// CPU keeps the order either way.
	Unordered bool

	// Seed keys the hash functions. Default 0: random, so that nobody can prepare
	// colliding keys. A table in which keys crowd takes another one, which follows
	// from it.
	Seed uint64

	// Logger is told of growth, shrinking, rehashes and reclaiming at debug level.
	// Default: silent.
	Logger *slog.Logger

	// crowded tables of fixed size have no more slots than MaxLoad asks for, and look for room
	// however full they are: tests bring them to where keys move.
	crowded bool
}

// Reclaim is when remap entries of deleted keys are cleared, keys come back to their
// primary buckets, and buckets of type B without entries are of type A again (paper,
// section 5.4).
type Reclaim int

const (
	// Lazy goes over the whole table once so many keys have been deleted that it pays.
	Lazy Reclaim = iota
	// Eager goes over the buckets of deleted keys behind each batch of deletes.
	Eager
	// Never leaves it to insertions, which use entries again that they need, and to
	// Compact.
	Never
)

var reclaims = enum.Names[Reclaim]{Type: "horton.Reclaim", Names: []string{"Lazy", "Eager", "Never"}, Err: op.ErrOptions}

// String is the name of when it is.
func (r Reclaim) String() string { return reclaims.String(r) }

// MarshalText is String, or weft.ErrOptions where there is no such value.
func (r Reclaim) MarshalText() ([]byte, error) { return reclaims.Text(r) }

// UnmarshalText reads a name, in upper or lower case: so flag.TextVar takes it.
func (r *Reclaim) UnmarshalText(text []byte) error { return reclaims.Read(r, text) }

// bearable is the load that random keys can be brought to by buckets of so many
// slots, in a large table: where slots with keys and those with remap entries make
// up the table (paper, section 6.2).
var bearable = map[int]float64{1: 0.80, 2: 0.87, 4: 0.92, 8: 0.955, 16: 0.975}

// safe are loads at which kernels find room for every key, too: from there on batches wait to know
// whether they have, so that a table may grow. With few slots a bucket's keys of one tag may need more
// free slots side by side than there are; with ten entries, more so.
var safe = map[int]float64{1: 0.55, 2: 0.7, 4: 0.8, 8: 0.88, 16: 0.92}

func (l layout) safe() float64 {
	if l.entries() < halfEntries {
		return safe[l.slots] - 0.1
	}
	return safe[l.slots]
}

// sure are the loads that tables of fixed size take, on a CPU and on a GPU: what every table of many
// was filled to (TestLoadIsReached), and what kernels find room for.
var (
	sureHost   = map[int]float64{1: 0.73, 2: 0.81, 4: 0.90, 8: 0.945, 16: 0.96}
	sureDevice = map[int]float64{1: 0.55, 2: 0.7, 4: 0.8, 8: 0.9, 16: 0.92}
)

func (l layout) sure(host bool) float64 {
	few := l.entries() < halfEntries
	switch {
	case host && few:
		return sureHost[l.slots] - 0.01
	case host:
		return sureHost[l.slots]
	case few:
		return sureDevice[l.slots] - 0.1
	}
	return sureDevice[l.slots]
}

// defaultLoads are the defaults of MaxLoad.
var defaultLoads = map[int]float64{1: 0.7, 2: 0.8, 4: 0.85, 8: 0.9, 16: 0.9}

// check fills in defaults and reports what makes no sense.
func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if err := bucket.CheckOptions(&c.Slots, &c.MaxLoad, defaultLoads); err != nil {
		return c, err
	}
	if c.Reclaim < Lazy || c.Reclaim > Never {
		return c, core.Invalid("no such way to reclaim: %d", c.Reclaim)
	}
	return c, core.Defaults(c.Capacity, c.Fixed, &c.Seed, &c.Logger)
}

// mode is that of slots of a width.
func (o *Options) mode(slotBytes int) mode {
	return mode{
		layout: layout{slots: o.Slots, slotBytes: slotBytes}, capacity: bucket.FixedCapacity(o.Capacity, o.Fixed && !o.crowded),
		eager: o.Reclaim == Eager,
	}
}

// policy is what the policy is told of a table.
func (o *Options) policy(l layout, host bool) bucket.Config {
	sure := l.sure(host)
	if o.crowded {
		sure = 0
	}
	return bucket.Config{
		Name: name, Capacity: o.Capacity, MaxLoad: o.MaxLoad, Fixed: o.Fixed, Unordered: o.Unordered,
		Seed: o.Seed, Logger: o.Logger,
		SlotBytes: l.slotBytes, Multiple: l.least(), MostLines: l.maxLines(), Safe: l.safe(), Sure: sure,
	}
}
