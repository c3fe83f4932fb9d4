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
	// with sixteen slots, or 32 with buckets of 16, and grows. A fixed table requires it.
	Capacity int

	// MaxLoad is the share of slots with keys at which the table grows. For a fixed table, it is
	// the share of slots that Capacity keys fill. The default is 0.9 with buckets of eight slots
	// and more; 0.85 of four, 0.8 of two, 0.7 of one. Insertions take longer the nearer it comes to
	// the load that buckets of that size bear, since arrays of remap entries take slots, too. That
	// load is about 0.8 for one slot, 0.87 for two, 0.92 for four, 0.955 for eight, 0.97 for
	// sixteen (paper, section 6.2).
	MaxLoad float64

	// Fixed tables never grow or shrink. They take Capacity keys. If MaxLoad is near what buckets
	// bear, or the table is small, they get as many more slots as that requires. On a GPU that
	// begins at loads of 0.55 with one slot, 0.7 with two, 0.8 with four, 0.9 with eight and 0.92
	// with sixteen, and 0.1 less in sets of 32-bit keys. Keys beyond Capacity that find no free
	// slot in their buckets are dropped, and the call returns weft.ErrFull. If keys crowd before
	// Capacity is reached, the table is rehashed with another seed, which takes memory for both
	// tables.
	Fixed bool

	// Slots is the number of slots of a bucket: 1, 2, 4, 8 or 16. The default is 8.
	Slots int

	// Reclaim selects when deletes make lookups short again. The default is Lazy.
	Reclaim Reclaim

	// Unordered drops the promise that duplicates within a batch have the outcome of batch order;
	// any one of them wins. It saves a GPU the search for duplicates. The CPU keeps the order
	// either way.
	Unordered bool

	// Seed keys the hash functions. The default 0 selects a random seed, so that colliding keys
	// cannot be prepared. A table in which keys crowd takes another seed, derived from this one.
	Seed uint64

	// Logger receives growth, shrinking, rehashes and reclaiming at debug level. The default is
	// silent.
	Logger *slog.Logger

	// crowded tables of fixed size have no more slots than MaxLoad requires, and search for a slot
	// however full they are. Tests use them to make keys move.
	crowded bool
}

// Reclaim selects when remap entries of deleted keys are cleared, keys return to their primary
// buckets, and buckets of type B without entries return to type A (paper, section 5.4).
type Reclaim int

const (
	// Lazy makes a pass over the whole table once enough keys have been deleted.
	Lazy Reclaim = iota
	// Eager reclaims the buckets of deleted keys after each batch of deletes.
	Eager
	// Never leaves reclaiming to Compact, and to insertions, which reuse the entries that they
	// need.
	Never
)

var reclaims = enum.Names[Reclaim]{Type: "horton.Reclaim", Names: []string{"Lazy", "Eager", "Never"}, Err: op.ErrOptions}

// String returns the name of the choice.
func (r Reclaim) String() string { return reclaims.String(r) }

// MarshalText returns String as bytes, or weft.ErrOptions for an unknown value.
func (r Reclaim) MarshalText() ([]byte, error) { return reclaims.Text(r) }

// UnmarshalText parses a name in upper or lower case, so flag.TextVar accepts it.
func (r *Reclaim) UnmarshalText(text []byte) error { return reclaims.Read(r, text) }

// maxLoads is the load that buckets of a number of slots reach with random keys in a large table:
// the load at which slots with keys and slots with remap entries fill the table (paper, section
// 6.2).
var maxLoads = map[int]float64{1: 0.80, 2: 0.87, 4: 0.92, 8: 0.955, 16: 0.975}

// safeLoads holds loads at which kernels, too, find a slot for every key. Above them batches wait
// for their outcome, so that a table may grow. With few slots, the keys of a bucket with one tag
// may need more free slots in one place than the table has. With ten entries that is more frequent.
var safeLoads = map[int]float64{1: 0.55, 2: 0.7, 4: 0.8, 8: 0.88, 16: 0.92}

func (l layout) safeLoad() float64 {
	if l.entries() < halfEntries {
		return safeLoads[l.slots] - 0.1
	}
	return safeLoads[l.slots]
}

// fixedLoadsHost and fixedLoadsDevice are the loads that tables of fixed size take on a CPU and on
// a GPU: what every one of many tables was filled to (TestLoadIsReached), and what kernels find
// slots for.
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

// defaultLoads holds the defaults of MaxLoad by number of slots.
var defaultLoads = map[int]float64{1: 0.7, 2: 0.8, 4: 0.85, 8: 0.9, 16: 0.9}

// check fills in defaults and rejects invalid options.
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

// mode returns the mode of tables with slots of slotBytes bytes.
func (o *Options) mode(slotBytes int) mode {
	return mode{
		layout: layout{slots: o.Slots, slotBytes: slotBytes}, capacity: bucket.FixedCapacity(o.Capacity, o.Fixed && !o.crowded),
		eager: o.Reclaim == Eager,
	}
}

// policy returns the configuration of the policy for a table.
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
