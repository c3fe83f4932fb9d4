package bucket

import (
	"context"
	"iter"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/cpu"
)

// Table is the interface of a table in host memory for [Copy].
type Table[K cpu.Key, V cpu.Val] interface {
	Size() Size
	// Units returns the number of lines that have slots: lines of buckets, lines that a structure
	// has after them, and the extra line.
	Units() uint32
	// Live iterates over the pairs of lines [lo,hi). Each pointer is valid until the next
	// iteration.
	Live(lo, hi uint32) iter.Seq[*cpu.Slot[K, V]]
	// TryInsert puts a pair into a free slot of its buckets. The key must be absent from the table.
	// It returns false if a bucket lies outside the share or no slot is free.
	TryInsert(part cpu.Share, pair *cpu.Slot[K, V]) bool
	// Insert puts a pair into the table, and moves other pairs if necessary. The key must be absent
	// from the table. It returns false if the pair finds no slot.
	Insert(pair *cpu.Slot[K, V]) bool
}

// pairsPerCheck is the number of pairs that a core copies between two checks of the context.
// Copying them takes about a millisecond.
const pairsPerCheck = 1 << 13

// forcedPerCheck is the number of deferred pairs between two checks of the context. Each pair may
// try thousands of keys.
const forcedPerCheck = 1 << 4

// Copy copies the pairs of a table to an empty table on all cores, and returns their number. In a
// table of any size, buckets are in the order of the hash. So with the same seed, the pairs in a
// range of old lines mostly belong to a range of new lines. Cores copy ranges independently. Pairs
// that leave their range, or find no free slot, are inserted at the end.
func Copy[K cpu.Key, V cpu.Val](ctx context.Context, dev device.Host, from, to Table[K, V]) (moved uint64, err error) {
	oldSize, newSize, shares := from.Size(), to.Size(), 1
	if oldSize.Seed == newSize.Seed {
		shares = min(cpu.SharesPerCore*dev.Properties().Units, int(oldSize.Lines), int(newSize.Lines))
	}
	copiers := make([]copier[K, V], shares)
	dev.Parallel(shares, 1, func(i, _ int) {
		cut := func(lines uint32, i int) uint32 { return uint32(uint64(lines) * uint64(i) / uint64(shares)) }
		c := copier[K, V]{to: to, part: cpu.Share{Lo: cut(newSize.Lines, i), Hi: cut(newSize.Lines, i+1)}}
		if shares == 1 {
			c.part.Hi = to.Units()
		}
		c.copy(ctx, from.Live(cut(oldSize.Lines, i), cut(oldSize.Lines, i+1)))
		copiers[i] = c
	})
	for i := range copiers {
		moved += copiers[i].moved + uint64(len(copiers[i].deferred))
		if err := insertDeferred(ctx, to, copiers[i].deferred); err != nil {
			return 0, err
		}
	}
	for s := range from.Live(oldSize.Lines, from.Units()) {
		if !to.Insert(s) {
			return 0, errCrowded(newSize.Lines)
		}
		moved++
	}
	return moved, ctx.Err()
}

// copier copies the pairs of a range of old lines to a range of new lines.
type copier[K cpu.Key, V cpu.Val] struct {
	to       Table[K, V]
	part     cpu.Share
	moved    uint64
	deferred []cpu.Slot[K, V] // pairs that need other lines or moves
}

func (c *copier[K, V]) copy(ctx context.Context, pairs iter.Seq[*cpu.Slot[K, V]]) {
	n := 0
	for s := range pairs {
		if n++; n%pairsPerCheck == 0 && ctx.Err() != nil {
			return
		}
		if c.to.TryInsert(c.part, s) {
			c.moved++
		} else {
			c.deferred = append(c.deferred, *s)
		}
	}
}

// insertDeferred inserts the deferred pairs anywhere in the table.
func insertDeferred[K cpu.Key, V cpu.Val](ctx context.Context, to Table[K, V], deferred []cpu.Slot[K, V]) error {
	for i := range deferred {
		if i%forcedPerCheck == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !to.Insert(&deferred[i]) {
			return errCrowded(to.Size().Lines)
		}
	}
	return nil
}
