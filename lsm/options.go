package lsm

import (
	"log/slog"
	"math/bits"

	"github.com/weftgo/weft/internal/core"
)

// Options configure a [Map]. The zero value and nil select the defaults.
type Options struct {
	// Base is the capacity of the newest level in entries. Each older level may have twice as many
	// entries as the level before it. Base is a power of two from 16 to 2²⁶. It should be about
	// the size of the batches: a smaller batch rewrites the newest level, and fewer levels make
	// lookups faster. Default 0: 2¹⁴ on a CPU, 2²⁰ on a GPU.
	Base int

	// ResultLimit is the maximum size in bytes of the results of one Range. Default 0: half of the
	// host's free memory.
	ResultLimit int

	// Logger receives a message at debug level when memory cannot be freed. Default: none.
	Logger *slog.Logger
}

const (
	hostBase = 1 << 14
	gpuBase  = 1 << 20
	maxBase  = 1 << 26
)

func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Base != 0 && (c.Base < minBase || c.Base > maxBase || bits.OnesCount(uint(c.Base)) != 1):
		return c, core.Invalid("Base %d is not a power of two from %d to %d", c.Base, minBase,
			maxBase)
	case c.ResultLimit < 0:
		return c, core.Invalid("ResultLimit %d is negative", c.ResultLimit)
	}
	return c, nil
}
