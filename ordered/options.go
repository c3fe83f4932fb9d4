package ordered

import (
	"fmt"
	"log/slog"
	"math"

	"github.com/weftgo/weft/internal/core"
)

// Options configure a [Map]. The zero value and nil select the defaults.
type Options struct {
	// Capacity is the number of pairs for which New allocates memory, with leaves as full as after
	// a bulk load. Default 0.
	Capacity int

	// Fill is the share of a leaf's 32 slots to use when several leaves are written together. A
	// bulk load does so, and a batch that inserts many neighboring keys. Between 0.65 and 1,
	// default 0.8. Fuller leaves are read faster, but split sooner when keys are inserted.
	Fill float64

	// ResultLimit is the maximum size in bytes of the results of one Range. Default 0: half of the
	// host's free memory.
	ResultLimit int

	// Logger receives messages about background work. Default: none.
	Logger *slog.Logger
}

const (
	defaultFill = 0.8
	// minFill is the minimum of Options.Fill. At this fill, a full leaf that takes over the pairs
	// left from the leaf before it never needs three leaves.
	minFill = 0.65

	// shrinkShare is the divisor of the capacity. If fewer leaves than capacity/shrinkShare are in
	// use, pairs move to less memory.
	shrinkShare = 8
)

// fillOf returns the number of pairs per leaf at a fill.
func fillOf(fill float64) int { return int(math.Round(fill * leafPairs)) }

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
	case c.ResultLimit < 0:
		return c, core.Invalid("ResultLimit %d is negative", c.ResultLimit)
	case c.Capacity > maxLeaves*leafPairs/2:
		return c, core.Invalid("Capacity %d is more than %d leaves can have", c.Capacity, maxLeaves)
	}
	seed := uint64(1) // unused: the map hashes nothing
	return c, core.Defaults(c.Capacity, false, &seed, &c.Logger)
}

func describe(leaves int) string { return fmt.Sprintf("in %d leaves", leaves) }
