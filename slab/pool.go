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

// maxUnits is the number of slabs that a pool has at most.
const maxUnits = alloc.MaxSupers * alloc.MaxBlocks * alloc.BlockUnits

// poolOptions are those of the pool of a table's chained slabs, with at least
// so many units. One that does not grow is a single block of memory. One that
// does begins with up to four super blocks, so that it can grow by sixty times
// before a rehash has to make a pool of larger ones.
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

// minAsked is the size of a table from which on the device is asked whether it
// has so much: for others that takes longer than to try.
const minAsked = 1 << 21

// enough returns an error if a device has not memory for a generation: before
// any of its parts is made, and filled.
func enough(dev device.Device, g geometry, units int, fixed bool) error {
	o, err := poolOptions(units, fixed)
	if err != nil {
		return err
	}
	bytes := g.bytes() + o.Bytes()
	if bytes < minAsked {
		return nil
	}
	if err := device.Enough(dev, bytes); err != nil {
		return fmt.Errorf("%d base slabs and %d others of %d bytes: %w", g.buckets, units, slabBytes, err)
	}
	return nil
}

// allocate makes the memory of a table: base slabs, whose content is
// undefined, and a pool with at least so many units, all owned by the table.
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

// ceilDiv is n / d, rounded up, for n >= 0.
func ceilDiv(n, d int) int { return n/d + (n%d+d-1)/d }
