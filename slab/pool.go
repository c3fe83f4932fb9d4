package slab

import (
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// newPool makes the allocator of a table's chained slabs, with at least so
// many units. One that does not grow is a single block of memory. One that
// does begins with up to four super blocks, so that it can grow by sixty times
// before a rehash has to make a pool of larger ones.
func newPool(dev device.Device, units int, fixed bool) (*Alloc, error) {
	blocks := ceilDiv(units, blockUnits)
	if blocks > maxSupers*maxBlocks {
		return nil, fmt.Errorf("%w: a pool of %d slabs, more than %d", weft.ErrFull, units, uint32(maxSupers*maxBlocks*blockUnits))
	}
	supers := ceilDiv(blocks, maxBlocks)
	if !fixed {
		supers = max(supers, 4)
	}
	o := AllocOptions{Light: fixed, Blocks: max(ceilDiv(blocks, max(supers, 1)), 1)}
	o.SuperBlocks = ceilDiv(blocks, o.Blocks)
	return NewAlloc(dev, &o)
}

// ceilDiv is n / d, rounded up, for n >= 0.
func ceilDiv(n, d int) int { return n/d + (n%d+d-1)/d }
