package cpu

import (
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
)

// Fetcher prefetches the rows of a batch to which sorted items refer, before the items are
// processed. These rows are scattered over the columns of the batch.
type Fetcher[K Key] struct {
	items   []Item[K]
	columns []column
	fetched int // end of the items with prefetched rows
}

// column is the memory of a column with 1<<shift bytes per row.
type column struct {
	base  unsafe.Pointer
	shift uint
}

// FetcherOf returns a Fetcher for items of a batch. It covers the columns that changes read or
// write, except the keys, because items contain the keys.
func FetcherOf[K Key](b *batch.Batch, items []Item[K]) Fetcher[K] {
	f := Fetcher[K]{items: items}
	for _, r := range []batch.Role{batch.Kinds, batch.Vals, batch.Out, batch.OK} {
		if c := &b.Columns[r]; len(c.Host) > 0 {
			f.columns = append(f.columns, column{unsafe.Pointer(unsafe.SliceData(c.Host)), uint(bits.TrailingZeros(uint(c.Width)))})
		}
	}
	return f
}

// Slice returns a Fetcher for items [lo,hi).
func (f Fetcher[K]) Slice(lo, hi int) Fetcher[K] {
	f.items, f.fetched = f.items[:hi], lo
	return f
}

// Fetch prefetches the rows of items ahead of item i. The caller calls it on reaching that item.
func (f *Fetcher[K]) Fetch(i int) {
	if i+Group < f.fetched || f.fetched >= len(f.items) {
		return
	}
	end := min(f.fetched+Group, len(f.items))
	var at [Group]uint32
	for i, item := range f.items[f.fetched:end] {
		at[i] = item.Row
	}
	for _, c := range f.columns {
		Prefetch(c.base, at[:end-f.fetched], c.shift)
	}
	f.fetched = end
}
