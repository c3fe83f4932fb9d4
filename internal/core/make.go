package core

import (
	"fmt"
	"log/slog"
	"math/rand/v2"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
)

// Make makes the table of a structure. If the caller has found the options invalid, it passes the
// reason as err, and Make returns err. build sets the policy and the engine in c. CopyTo calls
// build again for copies with the same options. Errors name the package and the kind of table.
func Make(c Config, err error, build func(c *Config) error) (*Table, error) {
	if err == nil && c.Device == nil {
		err = Invalid("no device")
	}
	if err == nil {
		err = build(&c)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: new %v: %w", c.Name, c.Kind, err)
	}
	c.NewLike = func(dev device.Device) (*Table, error) {
		other := c
		other.Device = dev
		return Make(other, nil, build)
	}
	return New(c), nil
}

// Invalid returns an error for invalid options.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", op.ErrOptions, fmt.Sprintf(format, args...))
}

// Defaults checks the options that all structures share, and replaces zero values by their
// defaults.
func Defaults(capacity int, fixed bool, seed *uint64, logger **slog.Logger) error {
	switch {
	case capacity < 0:
		return Invalid("Capacity %d is negative", capacity)
	case fixed && capacity == 0:
		return Invalid("a fixed structure needs a Capacity")
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	if *logger == nil {
		*logger = slog.New(slog.DiscardHandler)
	}
	return nil
}
