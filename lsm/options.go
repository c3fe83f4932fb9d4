package lsm

import (
	"log/slog"
	"math/bits"

	"github.com/weftgo/weft/internal/core"
)

// Options configure a [Map]. The zero value and nil are good defaults.
type Options struct {
	// Base is the number of entries that the newest level has at most; each that follows may
	// have twice as many. A power of two from 16 to 2²⁶. A batch smaller than that rewrites the
	// newest level, and of fewer levels lookups are faster: it should be about the size of the
	// batches. Default 0: 2¹⁴ on a CPU, 2²⁰ on a GPU.
	Base int

	// ResultLimit is how many bytes the results of Range may take. Default 0: half of
	// the host's free memory.
	ResultLimit int

	// Logger is told of memory that cannot be given back, at debug level. Default: silent.
	Logger *slog.Logger
}

const (
	hostBase = 1 << 14
	gpuBase  = 1 << 20
	mostBase = 1 << 26
)

// check fills in defaults and reports what makes no sense.
func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Base != 0 && (c.Base < leastBase || c.Base > mostBase || bits.OnesCount(uint(c.Base)) != 1):
		return c, core.Invalid("Base %d is no power of two from %d to %d", c.Base, leastBase, mostBase)
	case c.ResultLimit < 0:
		return c, core.Invalid("ResultLimit %d is negative", c.ResultLimit)
	}
	return c, nil
}
