package ordered

import (
	"fmt"
	"log/slog"
	"math"

	"github.com/weftgo/weft/internal/core"
)

// Options configure a [Map]. The zero value and nil are good defaults.
type Options struct {
	// Capacity is the number of pairs that there is memory for from the beginning on, if
	// their leaves are as full as a bulk load makes them. Default 0.
	Capacity int

	// Fill is the share of a leaf's 32 slots that is used where several leaves are written
	// together: by a bulk load, and where many keys come to one place. Between 0.65 and 1;
	// default 0.8. Fuller leaves are read faster, and split sooner when keys are inserted.
	Fill float64

	// ResultLimit is how many bytes the results of Range may take. Default 0: half of the
	// host's free memory.
	ResultLimit int

	// Logger receives what happens behind the scenes. Default: nobody.
	Logger *slog.Logger
}

const (
	defaultFill = 0.8
	// minFill keeps a few pairs that wait for those of the next leaf from making it three.
	minFill = 0.65

	// shrinkShare is the share of the leaves that there is memory for below which what is in
	// use moves to less.
	shrinkShare = 8
)

// fillOf is the number of pairs in a leaf at a fill.
func fillOf(fill float64) int { return int(math.Round(fill * leafPairs)) }

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
	case c.ResultLimit < 0:
		return c, core.Invalid("ResultLimit %d is negative", c.ResultLimit)
	case c.Capacity > maxLeaves*leafPairs/2:
		return c, core.Invalid("Capacity %d is more than %d leaves can have", c.Capacity, maxLeaves)
	}
	seed := uint64(1) // nothing is hashed
	return c, core.Defaults(c.Capacity, false, &seed, &c.Logger)
}

// describe says how large a structure is.
func describe(leaves int) string { return fmt.Sprintf("in %d leaves", leaves) }
