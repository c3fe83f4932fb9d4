package staging

import "sort"

// maxColumns is the maximum number of columns of a batch that are copied.
const maxColumns = 8

// bytes returns the size of the batch in the wider direction.
func (b *job) bytes() int {
	in, out := b.sumBytes(func(c column) int { return c.Bytes(0, b.b.N) })
	return max(in, out)
}

// rows returns how many rows fit a piece in the wider direction, not counting columns with rows of
// variable size.
func (b *job) rows(limit int) int {
	if b.whole {
		return b.b.N
	}
	in, out := b.sumBytes(func(c column) int {
		if c.Offsets != nil {
			return 0
		}
		return c.Width
	})
	return max(1, limit/max(in, out, 1))
}

// sumBytes adds up the sizes of the columns in each direction.
func (b *job) sumBytes(size func(column) int) (in, out int) {
	for _, c := range b.columns {
		if c.IsInput() {
			in += size(c)
		} else {
			out += size(c)
		}
	}
	return in, out
}

// variable reports whether a column has rows of variable size.
func (b *job) variable() bool {
	for _, c := range b.columns {
		if c.Offsets != nil {
			return true
		}
	}
	return false
}

// cut cuts the batch into pieces of at most the given number of rows. The columns of variable size
// take at most limit bytes of a piece.
func (r *Ring) cut(b *job, rows, limit int) {
	r.cuts = append(r.cuts[:0], 0)
	for lo := 0; lo < b.b.N; {
		n := min(rows, b.b.N-lo)
		for _, c := range b.columns {
			if c.Offsets != nil {
				n = max(1, sort.Search(n, func(i int) bool { return c.Bytes(lo, lo+i+1) > limit }))
			}
		}
		lo += n
		r.cuts = append(r.cuts, lo)
	}
	b.pieces = r.cuts
}

// slotSize returns what a slot needs for the largest piece: page-locked memory for columns that a
// core copies, and memory of the device.
func (b *job) slotSize() (host, device int) {
	for _, c := range b.columns {
		size := 0
		for i, lo := range b.pieces[:len(b.pieces)-1] {
			size = max(size, c.Bytes(lo, b.pieces[i+1]))
		}
		device += align(size)
		if !c.pinned {
			host += align(size)
		}
	}
	return host, device
}
