package ordered

import (
	"fmt"
	"log/slog"
	"math"

	"github.com/weftgo/weft/internal/core"
)

// Options configure a [Map]. The zero value and nil select the defaults.
type Options struct {
	// Capacity is the number of pairs for which New allocates memory, if their leaves are as full
	// as a bulk load makes them. Default 0.
	Capacity int

	// Fill is the share of a leaf's 32 slots to use where several leaves are written together: by a
	// bulk load, and where many keys come to one place. Between 0.65 and 1, default 0.8. Fuller
	// leaves are read faster, and split sooner when keys are inserted.
	Fill float64

	// ResultLimit is the maximum size in bytes of the results of Range. Default 0: half of the
	// host's free memory.
	ResultLimit int

	// Logger receives messages about background work. Default: none.
	Logger *slog.Logger
}

const (
	defaultFill = 0.8
	// With minFill, a few pairs that wait for the next leaf never turn it into three.
	minFill = 0.65

	// shrinkShare is the divisor of capacity below which the leaves in use move to less memory.
	shrinkShare = 8
)

// fillOf returns the number of pairs of a leaf at a fill.
func fillOf(fill float64) int { return int(math.Round(fill * leafPairs)) }

// check sets defaults and reports invalid options.
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
	seed := uint64(1) // nothing is hashed
	return c, core.Defaults(c.Capacity, false, &seed, &c.Logger)
}

// describe describes the size of a structure.
func describe(leaves int) string { return fmt.Sprintf("in %d leaves", leaves) }
