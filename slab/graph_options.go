package slab

import (
	"log/slog"

	"github.com/weftgo/weft/internal/core"
)

// GraphOptions configures a [Graph] or a [WeightedGraph]. The zero value and nil select defaults.
type GraphOptions struct {
	// Directed keeps the direction of edges. By default an edge is in the tables of both its ends.
	Directed bool

	// Vertices is the initial number of dictionary entries, of 16 bytes each. The dictionary grows
	// when larger vertices get edges.
	Vertices int

	// MaxVertices is the exclusive limit of vertex numbers. The default is 2^28, the maximum 2^31.
	MaxVertices int

	// MaxLoad is the thesis' load factor: the number of neighbors per slot of a vertex's base slabs
	// when its table is made or rehashed. A table with twice as many neighbors is rehashed. A GPU
	// rehashes it only when one of its chains also exceeds the mean length at that load. The
	// default is 0.7. Beyond 1 chains have several slabs.
	MaxLoad float64

	// Overwrite lets insertions reuse the slots of deleted edges. By default they do not, as in the
	// thesis: an insertion goes to the end of its chain, and dead slots stay until a flush. But an
	// edge with a weight returns to the slot that remembers it.
	Overwrite bool

	// MaxTombstones is the share of dead slots among the slots in use at which the graph flushes
	// itself. The default is 0.25. If MaxTombstones is negative, only Compact flushes.
	MaxTombstones float64

	// Seed is the key of the hash. The default 0 selects a random seed.
	Seed uint64

	// Logger receives rehashes and flushes at debug level. By default nothing is logged.
	Logger *slog.Logger
}

const (
	defaultGraphVertices = 1 << 28
	defaultGraphLoad     = 0.7
)

// check returns the options with defaults, or an error if they are invalid.
func (o *GraphOptions) check() (GraphOptions, error) {
	var c GraphOptions
	if o != nil {
		c = *o
	}
	if c.MaxVertices == 0 {
		c.MaxVertices = max(defaultGraphVertices, c.Vertices)
	}
	if c.MaxLoad == 0 {
		c.MaxLoad = defaultGraphLoad
	}
	if c.MaxTombstones == 0 {
		c.MaxTombstones = defaultMaxTombstones
	}
	switch {
	case c.MaxVertices < 1 || c.MaxVertices > maxGraphVertices:
		return c, core.Invalid("MaxVertices %d is not in [1, %d]", c.MaxVertices, maxGraphVertices)
	case c.Vertices < 0 || c.Vertices > c.MaxVertices:
		return c, core.Invalid("Vertices %d is not in [0, %d], which is MaxVertices", c.Vertices, c.MaxVertices)
	case !(c.MaxLoad > 0): // also NaN
		return c, core.Invalid("MaxLoad %v is not positive", c.MaxLoad)
	case !(c.MaxTombstones <= 1): // also NaN
		return c, core.Invalid("MaxTombstones %v is more than 1", c.MaxTombstones)
	}
	return c, core.Defaults(0, false, &c.Seed, &c.Logger)
}
