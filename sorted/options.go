package sorted

import (
	"log/slog"

	"github.com/weftgo/weft/internal/core"
)

// Options configure a [Map]. The zero value and nil select the defaults.
type Options struct {
	// ResultLimit is the maximum size in bytes of the results of one Range. Default 0: half of the
	// host's free memory.
	ResultLimit int

	// Logger receives a message at debug level when memory cannot be freed. Default: none.
	Logger *slog.Logger
}

func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.ResultLimit < 0 {
		return c, core.Invalid("ResultLimit %d is negative", c.ResultLimit)
	}
	return c, nil
}
