package staging

import "sort"

// maxColumns is the maximum number of columns that are copied per batch.
const maxColumns = 8

// bytes returns the size of the input or the output columns, whichever is larger.
func (b *job) bytes() int {
	in, out := b.sumBytes(func(c column) int { return c.Bytes(0, b.b.N) })
	return max(in, out)
}

// rows returns the maximum number of rows for which the input columns take at most limit bytes, and
// the output columns, too. Columns with rows of variable size do not count.
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

func (b *job) variable() bool {
	for _, c := range b.columns {
		if c.Offsets != nil {
			return true
		}
	}
	return false
}

// cut divides the batch into pieces of at most the given number of rows. In each piece, a column
// with rows of variable size takes at most limit bytes.
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

// slotSize returns the memory that a slot needs for the largest piece. Columns that a core copies
// need page-locked memory; all columns need device memory.
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
