package slab

import (
	"log/slog"

	"github.com/weftgo/weft/internal/core"
)

// GraphOptions configure a [Graph] or a [WeightedGraph]. The zero value and nil are good defaults.
type GraphOptions struct {
	// Directed: edges lead one way. Of an undirected graph, both ends have an edge in their tables.
	Directed bool

	// Vertices is how many vertices the dictionary has entries for from the start, of 16 bytes each. It grows by itself.
	Vertices int

	// MaxVertices is one more than the largest number that a vertex may have. Default and most: 2^28 and 2^31.
	MaxVertices int

	// MaxLoad is the thesis' load factor: how many neighbors a vertex has for each slot of its base slabs when its table is
	// made or rehashed, which it is when there are twice as many; on a GPU not before one of its chains needs more slabs
	// than these fill. Default 0.7. Beyond 1 chains have several slabs.
	MaxLoad float64

	// Overwrite has insertions take the slots of deleted edges. By default they don't, as in the thesis: an insertion then
	// goes to the end of its chain, and dead slots stay until the graph is flushed; but an edge with a weight returns to the
	// slot that remembers it.
	Overwrite bool

	// MaxTombstones is the share of slots in use that belong to deleted edges at which the graph flushes itself. Default 0.25.
	// Negative: only Compact does it.
	MaxTombstones float64

	// Seed keys the hash. Default 0: random.
	Seed uint64

	// Logger is told of rehashes and flushes at debug level. Default: silent.
	Logger *slog.Logger
}

const (
	defaultGraphVertices = 1 << 28
	defaultGraphLoad     = 0.7
)

// check fills in defaults and reports what makes no sense.
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
