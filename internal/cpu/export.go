package cpu

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// Export copies the live pairs of lines number [lo,hi), in their order, to the
// columns of a batch, as far as they have rows, and counts them. The extra line
// holds keys that look like sentinels, of which last is the last. each calls its
// second argument with the slots of a line, and of what is chained behind it.
func Export[K Key, V any, SK Key, SV Val](ctx context.Context, out *batch.Batch, from *core.Lines, lo, hi uint32, last SK, each func(line uint32, slots func([]Slot[SK, SV]))) (int, error) {
	base, order, n := unsafe.Pointer(unsafe.SliceData(from.Buf.Host)), from.Order, from.Units()-1
	keys, vals := batch.View[K](out.Columns[batch.Keys].Host), batch.View[V](out.Columns[batch.Vals].Host)
	pairs, flip := 0, SK(0) // flip turns what is stored into the key
	take := func(slots []Slot[SK, SV]) {
		for i := range slots {
			if IsSentinel(slots[i].Key, last) {
				continue
			}
			if pairs < len(keys) {
				keys[pairs] = K(slots[i].Key ^ flip)
				if vals != nil {
					vals[pairs] = *(*V)(unsafe.Pointer(&slots[i].Val))
				}
			}
			pairs++
		}
	}
	var lines [2][Group]uint32 // what is read, and what is on its way
	size := fetch(order, base, n, lo, hi, &lines[0])
	w := NewWatch(ctx)
	for turn := 0; lo < hi; turn ^= 1 {
		if w.Over(size) {
			return 0, ctx.Err()
		}
		lo += uint32(size)
		now := lines[turn][:size]
		size = fetch(order, base, n, lo, hi, &lines[turn^1])
		for _, line := range now {
			if flip = 0; line == n {
				flip = ^flip
			}
			each(line, take)
		}
	}
	return pairs, nil
}

// fetch works out which lines are number lo and on, up to hi, asks for them, and
// returns how many they are. Number n is that of the extra line.
func fetch(order core.Spread, base unsafe.Pointer, n, lo, hi uint32, lines *[Group]uint32) (size int) {
	var at [Group]unsafe.Pointer
	line := order.At(lo)
	for ; size < Group && lo < hi; size++ {
		if lines[size] = line; lo == n {
			lines[size] = n
		}
		at[size] = unsafe.Add(base, uintptr(lines[size])*core.LineBytes)
		line = order.Next(line)
		lo++
	}
	PrefetchPairs(at[:size])
	return size
}
