package cpu

import (
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
)

// Fetcher prefetches the batch rows of sorted items before the items are resolved. The rows lie
// anywhere in the columns of the batch.
type Fetcher[K Key] struct {
	items   []Item[K]
	columns []column
	ahead   int // end of the prefetched items
}

// column is the memory of a column, with 1<<shift bytes per row.
type column struct {
	base  unsafe.Pointer
	shift uint
}

// FetcherOf returns a Fetcher for items of a batch. It covers the columns that changes read or
// write, except the keys, which are in the items.
func FetcherOf[K Key](b *batch.Batch, items []Item[K]) Fetcher[K] {
	f := Fetcher[K]{items: items}
	for _, r := range []batch.Role{batch.Kinds, batch.Vals, batch.Out, batch.OK} {
		if c := &b.Columns[r]; len(c.Host) > 0 {
			f.columns = append(f.columns, column{unsafe.Pointer(unsafe.SliceData(c.Host)), uint(bits.TrailingZeros(uint(c.Width)))})
		}
	}
	return f
}

// Of returns a Fetcher for items [lo,hi).
func (f Fetcher[K]) Of(lo, hi int) Fetcher[K] {
	f.items, f.ahead = f.items[:hi], lo
	return f
}

// Fetch prefetches the rows of the next items when the caller has reached item x.
func (f *Fetcher[K]) Fetch(x int) {
	if x+Group < f.ahead || f.ahead >= len(f.items) {
		return
	}
	end := min(f.ahead+Group, len(f.items))
	var at [Group]uint32
	for i, it := range f.items[f.ahead:end] {
		at[i] = it.Row
	}
	for _, c := range f.columns {
		Prefetch(c.base, at[:end-f.ahead], c.shift)
	}
	f.ahead = end
}
