package slab

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// maxUnits is the maximum number of chained slabs in a pool.
const maxUnits = alloc.MaxSupers * alloc.MaxBlocks * alloc.BlockUnits

// poolOptions returns the options of a pool with room for at least the given number of chained
// slabs. A fixed pool is a single block of memory. A growing pool begins with up to four super
// blocks. So it can grow by a factor of sixty before a rehash must replace it by a pool with larger
// super blocks.
func poolOptions(units int, fixed bool) (*alloc.Options, error) {
	if units > maxUnits {
		return nil, fmt.Errorf("%w: a pool of %d slabs, more than %d", op.ErrFull, units, maxUnits)
	}
	blocks := ceilDiv(units, alloc.BlockUnits)
	supers := ceilDiv(blocks, alloc.MaxBlocks)
	if !fixed {
		supers = max(supers, 4)
	}
	o := &alloc.Options{Light: fixed, Blocks: max(ceilDiv(blocks, max(supers, 1)), 1)}
	o.SuperBlocks = ceilDiv(blocks, o.Blocks)
	return o, nil
}

// minChecked is the minimum table size for which checkMemory reads the free memory of the device.
// For smaller tables this takes longer than trying to allocate.
const minChecked = 1 << 21

// checkMemory returns an error if a device lacks memory for a generation. It runs before any part
// is allocated and filled.
func checkMemory(dev device.Device, g geometry, units int, fixed bool) error {
	o, err := poolOptions(units, fixed)
	if err != nil {
		return err
	}
	bytes := g.bytes() + o.Bytes()
	if bytes < minChecked {
		return nil
	}
	if err := device.CheckFree(dev, bytes); err != nil {
		return fmt.Errorf("%d base slabs and %d others of %d bytes: %w", g.buckets, units, slabBytes, err)
	}
	return nil
}

// allocate allocates the memory of a table: base slabs with undefined content, and a pool with room
// for at least the given number of chained slabs. The generation owns the pool.
func allocate(dev device.Device, g geometry, units int, fixed bool) (*generation, error) {
	o, err := poolOptions(units, fixed)
	if err != nil {
		return nil, err
	}
	gen := &generation{geometry: g}
	if gen.Lines, err = core.NewLines(dev, g.buckets); err != nil {
		return nil, err
	}
	if gen.pool, err = alloc.New(dev, o); err == nil {
		gen.units, err = gen.pool.Owner()
	}
	if err == nil {
		err = gen.units.Reserve(context.Background(), units)
	}
	if err != nil {
		return nil, errors.Join(err, gen.Free())
	}
	return gen, nil
}

// ceilDiv returns n / d, rounded up, for n >= 0.
func ceilDiv(n, d int) int { return n/d + (n%d+d-1)/d }
