package spill

import (
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
)

// Slice returns rows lo to hi-1 of a page, in the same memory.
func Slice(page []column.Column, lo, hi int) []column.Column {
	out := make([]column.Column, len(page))
	for i, c := range page {
		out[i] = c.Slice(lo, hi)
	}
	return out
}

// Take returns the given rows of a page, in that order, with their own memory. See column.Take.
func Take(dev device.Host, page []column.Column, rows []uint32) []column.Column {
	out := make([]column.Column, len(page))
	for i, c := range page {
		out[i] = column.Take(dev, c, rows)
	}
	return out
}

// Join returns the rows of one or more pages with the same types, one page after another. It clears
// the columns of several pages while it copies them, so that the collector can free them early.
func Join(pages [][]column.Column) ([]column.Column, error) {
	if len(pages) == 1 {
		return pages[0], nil
	}
	all, parts := make([]column.Column, len(pages[0])), make([]column.Column, len(pages))
	for i := range all {
		for j, p := range pages {
			parts[j], p[i] = p[i], column.Column{}
		}
		var err error
		if all[i], err = column.Concat(parts...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ExpandDictionaries replaces columns whose dictionary has more than maxValues values by their
// values. Otherwise a page of few rows would contain a copy of the whole dictionary.
func ExpandDictionaries(page []column.Column, maxValues int) ([]column.Column, error) {
	copied := false
	for i, c := range page {
		if _, dict := c.Codes(); dict.Len() <= maxValues {
			continue
		}
		if !copied {
			page, copied = slices.Clone(page), true
		}
		var err error
		if page[i], err = column.Concat(c); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// Bytes returns the memory of the values of a page. Byte strings count with their length and an
// offset of 8 bytes each.
func Bytes(page []column.Column) int64 {
	n := int64(0)
	for _, c := range page {
		if c.Type() == column.Bytes {
			n += 8*int64(c.Len()) + TextBytes(c)
		} else {
			n += int64(c.Len()) * int64(c.Type().Size())
		}
	}
	return n
}

// TextBytes returns the total length of the byte strings in a column, or 0 for other types.
func TextBytes(c column.Column) int64 {
	small, large, _ := c.Offsets()
	switch n := c.Len(); {
	case n == 0 || c.Type() != column.Bytes:
		return 0
	case small != nil:
		return int64(small[n] - small[0])
	case large != nil:
		return large[n] - large[0]
	case c.Width() > 0:
		return int64(n) * int64(c.Width())
	}
	n := int64(0)
	for i := range c.Len() {
		n += int64(len(c.Bytes(i)))
	}
	return n
}
