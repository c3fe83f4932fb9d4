package btree

import (
	"fmt"
	"log/slog"
	"math"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Options configure a [Map]. The zero value and nil are good defaults.
type Options struct {
	// Capacity is the number of pairs that there is memory for from the beginning on, if
	// nodes are as full as a bulk load makes them. Default 0.
	Capacity int

	// Fill is the share of a node's slots that a bulk load uses. Between 0.5 and 1; default
	// 0.8. Fuller nodes are fewer, and split sooner when keys are inserted.
	Fill float64

	// Unordered drops the promise that duplicates within a batch have the outcome of batch
	// order, and that of mixed batches: operations on a key are then run in any order, each
	// of them as a whole. It saves sorting, which small batches gain most by.
	Unordered bool

	// Versions is how a tree on a GPU keeps what snapshots have. A CPU keeps leaves' versions in
	// place, whatever it says. Default [Whole].
	Versions Versions

	// ResultLimit is how many bytes the results of Range may take. Default 0: half of the
	// host's free memory.
	ResultLimit int

	// Logger receives what happens behind the scenes. Default: nobody.
	Logger *slog.Logger
}

// Versions says how a tree on a GPU keeps what snapshots have (thesis, section 4.3.1).
type Versions uint8

const (
	// Whole keeps all nodes as they are: the first change behind a snapshot copies the tree.
	Whole Versions = iota
	// InPlace keeps versions of leaves: a leaf is copied before it is changed for the first time since the
	// newest snapshot that is held, and else changed where it is. Snapshots are those of the host.
	InPlace
	// OutOfPlace copies a leaf before every change, so that kernels may take snapshots beside changes
	// that are under way. Copies that no snapshot has are used again within the launch.
	OutOfPlace
)

var versionKinds = enum.Names[Versions]{Type: "btree.Versions", Names: []string{"Whole", "InPlace", "OutOfPlace"}, Err: op.ErrOptions}

// String is the name of the way to keep them.
func (v Versions) String() string { return versionKinds.String(v) }

// MarshalText is String, or weft.ErrOptions where there is no such value.
func (v Versions) MarshalText() ([]byte, error) { return versionKinds.Text(v) }

// UnmarshalText reads a name, in upper or lower case: so flag.TextVar takes it.
func (v *Versions) UnmarshalText(text []byte) error { return versionKinds.Read(v, text) }

const (
	defaultFill = 0.8
	minFill     = 0.5
)

// check fills in defaults and reports what makes no sense.
func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Fill == 0 {
		c.Fill = defaultFill
	}
	switch {
	case !(c.Fill >= minFill && c.Fill <= 1): // also NaN
		return c, core.Invalid("Fill %v is not in [%v, 1]", c.Fill, minFill)
	case c.Versions > OutOfPlace:
		return c, core.Invalid("Versions %d is none of Whole, InPlace and OutOfPlace", c.Versions)
	case c.ResultLimit < 0:
		return c, core.Invalid("ResultLimit %d is negative", c.ResultLimit)
	case c.Capacity > maxNodes*mostSlots:
		return c, core.Invalid("Capacity %d is more than %d nodes can have", c.Capacity, maxNodes)
	}
	seed := uint64(1) // nothing is hashed
	return c, core.Defaults(c.Capacity, false, &seed, &c.Logger)
}

// fillOf is the number of slots that a bulk load uses of so many.
func fillOf(fill float64, slots int) int { return max(2, int(math.Round(fill*float64(slots)))) }

// describe says how large a structure is.
func describe(nodes int) string { return fmt.Sprintf("in %d nodes", nodes) }
