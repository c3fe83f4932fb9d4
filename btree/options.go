package btree

import (
	"fmt"
	"log/slog"
	"math"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Options configure a [Map]. The zero value and nil select the defaults.
type Options struct {
	// Capacity is the number of pairs for which New allocates memory, with nodes as full as after a
	// bulk load. Default 0.
	Capacity int

	// Fill is the share of a node's slots that a bulk load uses, between 0.5 and 1. Default 0.8. A
	// higher Fill makes fewer nodes, but they split sooner when keys are inserted.
	Fill float64

	// Unordered lets the operations on a key run in any order, each atomically. Duplicates and
	// mixed batches then may have any outcome that such an order gives. This saves sorting, which
	// helps small batches most.
	Unordered bool

	// Versions selects how a tree on a GPU keeps the nodes that snapshots read. A CPU ignores it
	// and always keeps versions of nodes. Default [Whole].
	Versions Versions

	// ResultLimit is the maximum size in bytes of the results of one Range. Default 0: half of the
	// host's free memory.
	ResultLimit int

	// Logger receives messages about background work. Default: none.
	Logger *slog.Logger
}

// Versions selects how a tree on a GPU keeps the nodes that snapshots read (thesis, section 4.3.1).
type Versions uint8

const (
	// Whole keeps a whole tree for snapshots: the first change after a snapshot copies the tree.
	Whole Versions = iota
	// InPlace keeps versions of leaves. A leaf is copied before its first change since the newest
	// held snapshot. Later changes are made in place. Only the host takes snapshots.
	InPlace
	// OutOfPlace copies a leaf before every change, so kernels may take snapshots while changes
	// run. Copies that no snapshot reads are reused within the launch.
	OutOfPlace
)

var versionKinds = enum.Names[Versions]{Type: "btree.Versions", Names: []string{"Whole", "InPlace", "OutOfPlace"}, Err: op.ErrOptions}

// String returns the name of v.
func (v Versions) String() string { return versionKinds.String(v) }

// MarshalText returns the name of v, or weft.ErrOptions if v is not valid.
func (v Versions) MarshalText() ([]byte, error) { return versionKinds.Text(v) }

// UnmarshalText sets v by its name, in upper or lower case, so flag.TextVar accepts v.
func (v *Versions) UnmarshalText(text []byte) error { return versionKinds.Read(v, text) }

const (
	defaultFill = 0.8
	minFill     = 0.5
)

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
		return c, core.Invalid("Versions %d is not Whole, InPlace or OutOfPlace", c.Versions)
	case c.ResultLimit < 0:
		return c, core.Invalid("ResultLimit %d is negative", c.ResultLimit)
	case c.Capacity > maxNodes*maxSlots:
		return c, core.Invalid("Capacity %d is more than %d nodes can have", c.Capacity, maxNodes)
	}
	seed := uint64(1) // unused: the map hashes nothing
	return c, core.Defaults(c.Capacity, false, &seed, &c.Logger)
}

// fillOf returns the number of slots of a node that a bulk load uses.
func fillOf(fill float64, slots int) int { return max(2, int(math.Round(fill*float64(slots)))) }

func describe(nodes int) string { return fmt.Sprintf("in %d nodes", nodes) }
