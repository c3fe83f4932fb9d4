package bucket

import (
	"context"
	"iter"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/cpu"
)

// Table is what [Copy] requires of a table in host memory.
type Table[K cpu.Key, V cpu.Val] interface {
	Size() Size
	// Units is the number of lines that have slots: those of buckets, those that a structure has
	// after them, and the extra one.
	Units() uint32
	// Live iterates over the pairs of lines [lo,hi). Each is valid until the next.
	Live(lo, hi uint32) iter.Seq[*cpu.Slot[K, V]]
	// TryInsert puts a pair with a key that is absent from the table into a free slot of its
	// buckets. It reports false if these leave the share or have none.
	TryInsert(part cpu.Share, pair *cpu.Slot[K, V]) bool
	// Insert is TryInsert with the whole table; it moves other pairs if necessary. It reports false
	// if the pair finds no slot.
	Insert(pair *cpu.Slot[K, V]) bool
}

// pairsPerCheck is the number of pairs that a core moves between two checks of the context: about a
// millisecond's work.
const pairsPerCheck = 1 << 13

// forcedPerCheck is the number of forced pairs between two checks of the context: each may try
// thousands of keys.
const forcedPerCheck = 1 << 4

// Copy copies the pairs of one table to an empty other, on all cores, and counts them. First
// buckets are in hash order in a table of any size. So with the same seed a range of old lines
// mostly goes to a range of new lines. The cores work independently, except for pairs that leave
// the range, and those that find no slot at once.
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

// copier copies pairs into a range of new lines.
type copier[K cpu.Key, V cpu.Val] struct {
	to       Table[K, V]
	part     cpu.Share
	moved    uint64
	deferred []cpu.Slot[K, V] // pairs that need lines of another copier, or moves
}

// copy copies pairs until the context ends.
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

// insertDeferred copies the deferred pairs, with the whole table.
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
