package join

import (
	"context"
)

// partitioned holds rows by part, in ascending order within a part. The rows of part p begin at
// bounds[p]. Rows with nulls follow the last part.
type partitioned[K word] struct {
	keys   []K      // by row
	rows   []uint32 // row numbers, counted from the first distributed row
	bounds []uint32
}

// slicesPerCore is the number of slices of the rows per core. With several, the cores need not wait
// long for a core that also has other work.
const slicesPerCore = 4

// distribute distributes rows lo to hi-1 to the parts of their buckets, on all cores. Cores first
// count their rows for each part, which determines where they write them.
func (t *table[K]) distribute(ctx context.Context, src *source[K], lo, hi int, p parts, h *partitioned[K]) error {
	n := hi - lo
	slices := max(1, min(slicesPerCore*t.host.Properties().Units, n/(4*blockRows)))
	size := (n + slices - 1) / slices
	places := make([]uint32, slices*(p.n+1))
	each := func(body func(places []uint32, lo, hi int)) error {
		t.host.Parallel(slices, 1, func(i, _ int) {
			if ctx.Err() == nil {
				body(places[i*(p.n+1):][:p.n+1], lo+min(i*size, n), lo+min((i+1)*size, n))
			}
		})
		return ctx.Err()
	}
	if err := each(func(places []uint32, lo, hi int) { t.count(src, lo, hi, p, places) }); err != nil {
		return err
	}
	h.bounds = make([]uint32, p.n+2)
	sum := uint32(0)
	for part := range p.n + 1 {
		h.bounds[part] = sum
		for i := range slices {
			at := &places[i*(p.n+1)+part]
			*at, sum = sum, sum+*at
		}
	}
	h.bounds[p.n+1] = sum
	return each(func(places []uint32, from, to int) { t.scatter(src, from, to, lo, p, places, h) })
}

// visitBlocks calls body for each block of rows, with their words and parts.
func (t *table[K]) visitBlocks(src *source[K], lo, hi int, p parts, body func(at int, words []K, part []uint32)) {
	b := t.block()
	defer t.blocks.Put(b)
	for ; lo < hi; lo += blockRows {
		words, null := src.read(b, lo, min(lo+blockRows, hi))
		part := b.buckets[:len(words)]
		t.bucketsOf(words, part)
		for i := range part {
			part[i] >>= p.shift
		}
		for i, isNull := range null {
			if isNull {
				part[i] = uint32(p.n)
			}
		}
		body(lo, words, part)
	}
}

func (t *table[K]) count(src *source[K], lo, hi int, p parts, counts []uint32) {
	t.visitBlocks(src, lo, hi, p, func(_ int, _ []K, part []uint32) {
		for _, x := range part {
			counts[x]++
		}
	})
}

func (t *table[K]) scatter(src *source[K], lo, hi, first int, p parts, places []uint32, h *partitioned[K]) {
	t.visitBlocks(src, lo, hi, p, func(from int, words []K, part []uint32) {
		keys, rows, row := h.keys, h.rows, uint32(from-first)
		for i, x := range part {
			at := places[x]
			places[x] = at + 1
			keys[at] = words[i]
			rows[at] = row + uint32(i)
		}
	})
}
