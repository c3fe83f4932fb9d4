package core

import (
	"fmt"
	"log/slog"
	"math/rand/v2"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
)

// Make is the constructor of a structure with valid options; err reports invalid ones. build makes
// the policy and the engine, for this table and for those that CopyTo makes with the same options.
// Errors name the kind of the table.
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

// Invalid returns the error of invalid options.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", op.ErrOptions, fmt.Sprintf(format, args...))
}

// Defaults checks the options that all structures have, and fills in their defaults.
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
