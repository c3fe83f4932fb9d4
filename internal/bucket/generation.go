package bucket

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// mostLocks is the largest number of locks of a table: they lie in the cache, and so
// many threads as a device runs seldom want the same one.
const mostLocks = 1 << 20

// Behind the locks lie copies of a count of moves under way, each in a line of its own
// (twin: locks.cuh).
const copies, copyWords = 16, core.LineBytes / 4

// Generation is the memory of a table between two rehashes: its lines, and on a GPU
// locks that buckets share, a word each. A structure's generation embeds it.
type Generation struct {
	core.Lines
	locks device.Buffer
}

// Allocate takes memory for so many lines, whose content is undefined, and for the
// locks of so many buckets.
func Allocate(dev device.Device, lines, buckets uint32) (g Generation, err error) {
	if g.Lines, err = core.NewLines(dev, lines); err != nil {
		return g, err
	}
	if _, host := dev.(device.Host); !host {
		if g.locks, err = dev.Alloc(4 * (locksFor(buckets) + copies*copyWords)); err != nil {
			return g, errors.Join(err, g.Lines.Free())
		}
	}
	return g, nil
}

// locksFor is how many locks so many buckets have: a power of two.
func locksFor(buckets uint32) int { return min(1<<bits.Len32(buckets), mostLocks) }

// Locks is where the locks lie on the device.
func (g *Generation) Locks() device.Ptr { return g.locks.Ptr }

// LockMask is their number minus one.
func (g *Generation) LockMask() uint32 { return uint32(g.locks.Size/4-copies*copyWords) - 1 }

// OpenLocks submits making all locks free, and counts zero.
func (g *Generation) OpenLocks(s *device.Stream) error {
	return s.Fill(g.locks.Ptr, 0, g.locks.Size/4)
}

// Free is for [core.Parts].
func (g *Generation) Free() error {
	err := g.Lines.Free()
	if g.locks.Size > 0 {
		err = errors.Join(err, g.Device.Free(g.locks))
	}
	return err
}

// crowded is the error of a rehash in which a pair finds no slot.
func crowded(lines uint32) error {
	return fmt.Errorf("keys crowd in %d lines of buckets: %w", lines, op.ErrFull)
}
