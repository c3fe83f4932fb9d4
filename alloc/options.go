package alloc

import (
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
)

const (
	defaultUnit   = 128
	defaultBlocks = 256
)

// Options configures a [Pool]. The zero value and nil select the defaults.
type Options struct {
	// UnitBytes is the size of a unit: 128 (the default) or 256.
	UnitBytes int
	// Blocks is the number of memory blocks, of 1024 units each, in a super block: 1 to 16384. The
	// default is 256, which is 32 MiB at 128 bytes a unit. The pool grows by whole super blocks.
	Blocks int
	// SuperBlocks is the initial number of super blocks. The default is 0, or 1 for a light pool.
	SuperBlocks int
	// MaxSuperBlocks is the maximum number of super blocks. The default and the upper limit are
	// 255.
	MaxSuperBlocks int
	// Light puts all super blocks into one block of device memory, so that kernels find units
	// without a table of addresses (SlabAlloc-light). A light pool never grows.
	Light bool
}

// check returns the options with zero fields replaced by defaults, or an error if they are invalid.
func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	for _, d := range []struct {
		field *int
		value int
	}{{&c.UnitBytes, defaultUnit}, {&c.Blocks, defaultBlocks}, {&c.MaxSuperBlocks, maxSupers}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.Light {
		if c.SuperBlocks == 0 {
			c.SuperBlocks = 1
		}
		c.MaxSuperBlocks = c.SuperBlocks
	}
	fail := func(format string, args ...any) (Options, error) {
		return c, fmt.Errorf("alloc: new Pool: %w: %s", op.ErrOptions, fmt.Sprintf(format, args...))
	}
	switch {
	case c.UnitBytes != 128 && c.UnitBytes != 256:
		return fail("UnitBytes is %d, not 128 or 256", c.UnitBytes)
	case c.Blocks < 1 || c.Blocks > maxBlocks:
		return fail("Blocks %d is not in [1, %d]", c.Blocks, maxBlocks)
	case c.MaxSuperBlocks < 1 || c.MaxSuperBlocks > maxSupers:
		return fail("a limit of %d super blocks is not in [1, %d]", c.MaxSuperBlocks, maxSupers)
	case c.SuperBlocks < 0 || c.SuperBlocks > c.MaxSuperBlocks:
		return fail("SuperBlocks %d is not in [0, %d]", c.SuperBlocks, c.MaxSuperBlocks)
	}
	return c, nil
}

func (o *Options) superBytes() int {
	return o.Blocks * (bitmapBytes + blockUnits*o.UnitBytes)
}

// Bytes returns the size of the device memory that a new pool allocates for super blocks.
func (o *Options) Bytes() int {
	c, err := o.check()
	if err != nil {
		return 0 // New refuses these options
	}
	return c.SuperBlocks * c.superBytes()
}

func (o *Options) afford(dev device.Device) error {
	if o.SuperBlocks == 0 {
		return nil
	}
	return device.CheckFree(dev, o.SuperBlocks*o.superBytes())
}
