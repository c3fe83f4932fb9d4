package sorted

import (
	"log/slog"

	"github.com/weftgo/weft/internal/core"
)

// Options configure a [Map]. The zero value and nil are good defaults.
type Options struct {
	// ResultLimit is how many bytes the results of Range may take. Default 0: half of
	// the host's free memory.
	ResultLimit int

	// Logger is told of memory that cannot be given back, at debug level. Default: silent.
	Logger *slog.Logger
}

// check fills in defaults and reports what makes no sense.
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
