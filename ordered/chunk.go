package ordered

import (
	"sort"

	"github.com/weftgo/weft/internal/cpu"
)

// A chunk is some neighboring leaves and the operations on their keys, in key order. One core works
// on it at a time. A leaf with many operations is cut: several chunks share it, each with a range
// of its keys.
type chunk[K word] struct {
	a, b   int // leaves [a,b)
	lo, hi int // items
	cut    bool
	from   K    // of a leaf that is cut: first key
	to     K    // and the key after the last
	last   bool // the keys extend to the end of the leaf

	touched  []uint32 // numbers of the leaves that have items
	maxExtra int      // max leaves to write in addition to its own
	ids      []uint32 // maxExtra leaves
	out      entries[K]
	retired  []uint32 // leaves that are no longer in use
	delta    int64    // change of the number of pairs
	// moved is set if other leaves than before are in use, not only other sizes.
	moved bool
}

// entries is leaves in order, as in an index.
type entries[K word] struct {
	seps  []K
	ids   []uint32
	sizes []uint8
}

func entriesFor[K word](n int) entries[K] {
	return entries[K]{make([]K, 0, n), make([]uint32, 0, n), make([]uint8, 0, n)}
}

func (e *entries[K]) add(sep K, id uint32, size int) {
	e.seps, e.ids, e.sizes = append(e.seps, sep), append(e.ids, id), append(e.sizes, uint8(size))
}

// chunks cuts the leaves that have operations into chunks, with their operations. The result does
// not depend on the number of cores.
func (f *forest[K, V]) chunks(items []cpu.Item[K]) (chunks []chunk[K]) {
	x := f.present
	if x.leaves == 0 {
		for lo := 0; lo < len(items); {
			hi := cpu.RunEnd(items, lo+chunkItems)
			chunks = append(chunks, chunk[K]{lo: lo, hi: hi})
			lo = hi
		}
		return chunks
	}
	for lo := 0; lo < len(items); {
		a := x.leaf(items[lo].Key) / chunkLeaves * chunkLeaves
		b := min(a+chunkLeaves, x.leaves)
		hi := x.items(items, lo, b)
		if hi-lo <= chunkItems {
			chunks = append(chunks, chunk[K]{a: a, b: b, lo: lo, hi: hi})
		} else {
			chunks = x.cutLeaves(chunks, items[:hi], lo, a, b)
		}
		lo = hi
	}
	return chunks
}

// items returns the end of the items, from number lo on, that are for leaves before b.
func (x *index[K]) items(items []cpu.Item[K], lo, b int) int {
	if b == x.leaves {
		return len(items)
	}
	sep := x.seps[0][b]
	return lo + sort.Search(len(items)-lo, func(i int) bool { return items[lo+i].Key >= sep })
}

// cutLeaves cuts leaves [a,b), which have the items from number lo on, into chunks of at most about
// chunkItems items.
func (x *index[K]) cutLeaves(chunks []chunk[K], items []cpu.Item[K], lo, a, b int) []chunk[K] {
	for p := a; p < b; {
		q, hi := p, lo
		for q < b {
			end := x.items(items, hi, q+1)
			if q > p && end-lo > chunkItems {
				break
			}
			q, hi = q+1, end
		}
		switch {
		case hi-lo > chunkItems && q == p+1:
			chunks = x.cutLeaf(chunks, items[:hi], lo, p)
		case hi > lo:
			chunks = append(chunks, chunk[K]{a: p, b: q, lo: lo, hi: hi})
		}
		p, lo = q, hi
	}
	return chunks
}

// cutLeaf cuts leaf p, which has the items from number lo on.
func (x *index[K]) cutLeaf(chunks []chunk[K], items []cpu.Item[K], lo, p int) []chunk[K] {
	from := x.seps[0][p]
	for lo < len(items) {
		hi := cpu.RunEnd(items, lo+chunkItems)
		c := chunk[K]{a: p, b: p + 1, lo: lo, hi: hi, cut: true, from: from, last: hi == len(items)}
		if !c.last {
			c.to = items[hi].Key
		}
		chunks = append(chunks, c)
		lo, from = hi, c.to
	}
	return chunks
}

// visitLeaves calls visit with each leaf of a chunk and the items for it.
func (c *chunk[K]) visitLeaves(x *index[K], items []cpu.Item[K], visit func(p int, items []cpu.Item[K])) {
	at := c.lo
	for p := c.a; p < c.b; p++ {
		from := at
		if p+1 == c.b {
			at = c.hi
		} else {
			for next := x.seps[0][p+1]; at < c.hi && items[at].Key < next; {
				at++
			}
		}
		visit(p, items[from:at])
	}
}
