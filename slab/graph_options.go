package slab

import (
	"log/slog"

	"github.com/weftgo/weft/internal/core"
)

// GraphOptions configures a [Graph] or a [WeightedGraph]. The zero value and nil are good defaults.
type GraphOptions struct {
	// Directed makes edges lead one way. In an undirected graph, both ends have an edge in their
	// tables.
	Directed bool

	// Vertices is the initial number of dictionary entries, of 16 bytes each. The dictionary grows
	// by itself.
	Vertices int

	// MaxVertices is the exclusive limit of vertex numbers. Default 2^28, maximum 2^31.
	MaxVertices int

	// MaxLoad is the thesis' load factor: the neighbors of a vertex per slot of its base slabs when
	// its table is made or rehashed. A table with twice as many neighbors is rehashed; on a GPU not
	// before one of its chains needs more slabs than these fill. Default 0.7. Beyond 1 chains have
	// several slabs.
	MaxLoad float64

	// Overwrite lets insertions take the slots of deleted edges. By default they do not, as in the
	// thesis. An insertion then goes to the end of its chain, and dead slots stay until the graph
	// is flushed. But an edge with a weight returns to the slot that remembers it.
	Overwrite bool

	// MaxTombstones is the share of dead slots among the slots in use at which the graph flushes
	// itself. Default 0.25. If negative, only Compact flushes.
	MaxTombstones float64

	// Seed keys the hash. Default 0: random.
	Seed uint64

	// Logger receives rehashes and flushes at debug level. Default: silent.
	Logger *slog.Logger
}

const (
	defaultGraphVertices = 1 << 28
	defaultGraphLoad     = 0.7
)

// check fills in defaults and reports invalid options.
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
