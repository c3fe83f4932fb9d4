package bucket

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// maxLocks is the maximum number of locks of a table. They fit in the cache of a GPU, and threads
// that run at the same time rarely need the same lock.
const maxLocks = 1 << 20

// copies is the number of copies of the count of running moves. They lie after the locks, each in
// its own line of copyWords words (locks.cuh).
const copies, copyWords = 16, core.LineBytes / 4

// Generation is the memory of a table between two rehashes: its lines, and on a GPU locks. A lock
// is one word and belongs to several buckets. A structure's generation embeds Generation.
type Generation struct {
	core.Lines
	locks device.Buffer
}

// Allocate allocates lines, and on a GPU locks for the given number of buckets. Their contents are
// undefined.
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

// locksFor returns the number of locks for the given number of buckets. It is a power of two.
func locksFor(buckets uint32) int { return min(1<<bits.Len32(buckets), maxLocks) }

// Locks returns the device address of the locks.
func (g *Generation) Locks() device.Ptr { return g.locks.Ptr }

// LockMask returns the number of locks minus one.
func (g *Generation) LockMask() uint32 { return uint32(g.locks.Size/4-copies*copyWords) - 1 }

// InitLocks submits a fill that releases all locks and sets the counts of moves to zero.
func (g *Generation) InitLocks(s *device.Stream) error {
	return s.Fill(g.locks.Ptr, 0, g.locks.Size/4)
}

// Free implements [core.Parts].
func (g *Generation) Free() error {
	err := g.Lines.Free()
	if g.locks.Size > 0 {
		err = errors.Join(err, g.Device.Free(g.locks))
	}
	return err
}

// errCrowded returns the error for a rehash in which a pair finds no slot.
func errCrowded(lines uint32) error {
	return fmt.Errorf("keys crowd in %d lines of buckets: %w", lines, op.ErrFull)
}
