package cpu

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// Export copies the live pairs of lines [lo,hi), numbered in the order of [core.WeylOrder], to the
// columns of a batch and returns the number of pairs. It copies only as many pairs as the columns
// have rows. The extra line holds keys that look like sentinels. last is the last sentinel. Export
// calls each for every line; each must call slots with the slots of the line and of all lines
// chained to it.
func Export[K Key, V any, SK Key, SV Val](ctx context.Context, out *batch.Batch, from *core.Lines, lo, hi uint32, last SK, each func(line uint32, slots func([]Slot[SK, SV]))) (int, error) {
	rows, flip := RowsOf[K, V](out), SK(0) // flip converts a stored key to the key
	addSlots := func(slots []Slot[SK, SV]) {
		for i := range slots {
			if !IsSentinel(slots[i].Key, last) {
				AddRow(&rows, K(slots[i].Key^flip), &slots[i])
			}
		}
	}
	extra := from.Units() - 1
	err := Walk(ctx, from, lo, hi, func(line uint32) {
		if flip = 0; line == extra {
			flip = ^flip
		}
		each(line, addSlots)
	})
	return rows.N, err
}

// Rows holds columns to which pairs are copied.
type Rows[K, V any] struct {
	N    int // number of pairs, including pairs for which the columns have no row
	keys []K
	vals []V
}

// RowsOf returns the key and value columns of a batch.
func RowsOf[K, V any](out *batch.Batch) Rows[K, V] {
	return Rows[K, V]{keys: batch.View[K](out.Columns[batch.Keys].Host), vals: batch.View[V](out.Columns[batch.Vals].Host)}
}

// AddRow appends a key and the value in a slot.
func AddRow[K, V any, SK Key, SV Val](r *Rows[K, V], key K, s *Slot[SK, SV]) {
	if r.N < len(r.keys) {
		r.keys[r.N] = key
		if r.vals != nil {
			r.vals[r.N] = *(*V)(unsafe.Pointer(&s.Val))
		}
	}
	r.N++
}

// Walk calls visit for lines [lo,hi), numbered in reading order. If the context ends first, Walk
// returns the context's error. While it visits one group of lines, the memory for the next group
// arrives.
func Walk(ctx context.Context, of *core.Lines, lo, hi uint32, visit func(line uint32)) error {
	base, order, n := unsafe.Pointer(unsafe.SliceData(of.Buf.Host)), of.Order, of.Units()-1
	var lines [2][Group]uint32 // the current group and the prefetched group
	size := prefetchLines(order, base, n, lo, hi, &lines[0])
	w := NewWatch(ctx)
	for cur := 0; lo < hi; cur ^= 1 {
		if w.ShouldStop(size) {
			return ctx.Err()
		}
		lo += uint32(size)
		current := lines[cur][:size]
		size = prefetchLines(order, base, n, lo, hi, &lines[cur^1])
		for _, line := range current {
			visit(line)
		}
	}
	return nil
}

// prefetchLines computes and prefetches the next group of lines from number lo on, up to hi. It
// returns the number of lines. Number n is the extra line.
func prefetchLines(order core.WeylOrder, base unsafe.Pointer, n, lo, hi uint32, lines *[Group]uint32) (size int) {
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
