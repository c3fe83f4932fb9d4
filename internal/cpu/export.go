package cpu

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// Export copies the live pairs of lines number [lo,hi), in their order, to the columns of a batch,
// as long as they have rows, and counts them. The extra line holds keys that look like sentinels;
// last is the last sentinel. each calls its second argument with the slots of a line and of its
// chain.
func Export[K Key, V any, SK Key, SV Val](ctx context.Context, out *batch.Batch, from *core.Lines, lo, hi uint32, last SK, each func(line uint32, slots func([]Slot[SK, SV]))) (int, error) {
	rows, flip := RowsOf[K, V](out), SK(0) // flip turns what is stored into the key
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

// Rows holds columns that pairs are copied to.
type Rows[K, V any] struct {
	N    int // pairs, including those beyond the rows of the columns
	keys []K
	vals []V
}

// RowsOf returns the columns of a batch.
func RowsOf[K, V any](out *batch.Batch) Rows[K, V] {
	return Rows[K, V]{keys: batch.View[K](out.Columns[batch.Keys].Host), vals: batch.View[V](out.Columns[batch.Vals].Host)}
}

// AddRow copies a key and the value in a slot.
func AddRow[K, V any, SK Key, SV Val](r *Rows[K, V], key K, s *Slot[SK, SV]) {
	if r.N < len(r.keys) {
		r.keys[r.N] = key
		if r.vals != nil {
			r.vals[r.N] = *(*V)(unsafe.Pointer(&s.Val))
		}
	}
	r.N++
}

// Walk visits lines number [lo,hi), in their order, until the context ends, and then returns the
// context's error. While some are visited, the memory of the next arrives.
func Walk(ctx context.Context, of *core.Lines, lo, hi uint32, visit func(line uint32)) error {
	base, order, n := unsafe.Pointer(unsafe.SliceData(of.Buf.Host)), of.Order, of.Units()-1
	var lines [2][Group]uint32 // the group being read and the one being prefetched
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

// prefetchLines computes the lines number lo and on, up to hi, prefetches them, and returns their
// number. Number n is that of the extra line.
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
