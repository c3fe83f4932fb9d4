package cpu

import (
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
)

// Fetcher has the rows of sorted items on their way before they are settled: these lie
// anywhere in the columns of a batch.
type Fetcher[K Key] struct {
	items   []Item[K]
	columns []column
	ahead   int // items whose rows are on their way
}

// column is memory of a batch with 1<<shift bytes for each row.
type column struct {
	base  unsafe.Pointer
	shift uint
}

// FetcherOf is that of items of a batch. Their columns are those that changes read or write, but
// for the keys, which are in the items.
func FetcherOf[K Key](b *batch.Batch, items []Item[K]) Fetcher[K] {
	f := Fetcher[K]{items: items}
	for _, r := range []batch.Role{batch.Kinds, batch.Vals, batch.Out, batch.OK} {
		if c := &b.Columns[r]; len(c.Host) > 0 {
			f.columns = append(f.columns, column{unsafe.Pointer(unsafe.SliceData(c.Host)), uint(bits.TrailingZeros(uint(c.Width)))})
		}
	}
	return f
}

// Of is for items [lo,hi) of those.
func (f Fetcher[K]) Of(lo, hi int) Fetcher[K] {
	f.items, f.ahead = f.items[:hi], lo
	return f
}

// Fetch asks for the rows of the items that come next, as somebody has got to number x.
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
